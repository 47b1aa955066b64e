// Array: so many elements of one type.
// All functions: any thread on its own; no barrier, no shared memory. Bits are kept as they are, NaN payloads included.
// The moves of vectors are apart (vector_move.cuh, memory_moves.cuh): most kernels need Array, and few need those.
#ifndef FUSIOND_ARRAY_CUH
#define FUSIOND_ARRAY_CUH

namespace fusiond
{

// `size` elements, aligned to `align` elements. An aggregate without any cost of construction.
template <typename T, int size, int align = 1> struct alignas(sizeof(T) * align) Array {
    static_assert(size > 0 && align > 0, "Array: size and alignment are positive");
    T array[size];

    __device__ __forceinline__ void set(T value)
    {
#pragma unroll
        for (int i = 0; i < size; ++i)
            array[i] = value;
    }

    __device__ __forceinline__ T &operator[](unsigned i)
    {
        return array[i];
    }
    __device__ __forceinline__ const T &operator[](unsigned i) const
    {
        return array[i];
    }
};

// vec elements from buff on become value.
template <typename T, int vec> __device__ __forceinline__ void arraySet(T *buff, T value)
{
#pragma unroll
    for (int i = 0; i < vec; ++i)
        buff[i] = value;
}

} // namespace fusiond

#endif
