// Tensor: how a kernel sees a tensor argument. The host packs it as pointer, sizes, strides, padding to 8.
#ifndef FUSIOND_TENSOR_CUH
#define FUSIOND_TENSOR_CUH

#include "fusiond/array.cuh"

#if !defined(FUSIOND_INDEX_INT32_CUH) && !defined(FUSIOND_INDEX_INT64_CUH)
#error "fusiond/tensor.cuh: include fusiond/index_int32.cuh or fusiond/index_int64.cuh first"
#endif

namespace fusiond
{

// Pointer, sizes of the logical dimensions, strides of the allocated ones, in elements. size and stride are the same
// storage under the names that kernels used until 2023-07 (members of one type in a union may be read by either name).
template <typename T, int Dims, int AllocDims = Dims> struct Tensor {
    static_assert(Dims > 0 && AllocDims > 0, "Tensor: give both ranks as 0, or none");
    T *data;
    union {
        Array<nvfuser_index_t, Dims, 1> logical_size;
        Array<nvfuser_index_t, Dims, 1> size;
    };
    union {
        Array<nvfuser_index_t, AllocDims, 1> alloc_stride;
        Array<nvfuser_index_t, AllocDims, 1> stride;
    };

    // The element at a linear offset; no bounds check.
    __device__ __forceinline__ T &operator[](nvfuser_index_t offset)
    {
        return data[offset];
    }
    __device__ __forceinline__ T &operator[](nvfuser_index_t offset) const
    {
        return data[offset];
    }
};

// A tensor of one element: the pointer alone.
template <typename T> struct Tensor<T, 0, 0> {
    T *data;

    __device__ __forceinline__ T &operator[](nvfuser_index_t)
    {
        return *data;
    }
    __device__ __forceinline__ T &operator[](nvfuser_index_t) const
    {
        return *data;
    }
};

// A host tensor of one element, passed by value.
template <typename T> struct CpuScalarTensor {
    T data;

    __device__ __forceinline__ T &operator[](int)
    {
        return data;
    }
};

static_assert(sizeof(Tensor<float, 0, 0>) == 8, "rank 0 is a pointer");
static_assert(sizeof(Tensor<float, 1, 2>) == (8 + 3 * sizeof(nvfuser_index_t) + 7) / 8 * 8, "no inner padding");

} // namespace fusiond

#endif
