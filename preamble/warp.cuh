// Reductions by warp shuffles. The lanes of every warp that calls are all active, and a warp has 32.
// op(a, b) folds b into a; it is associative and commutative. The order of combination is not promised. NaN: op's rule.
#ifndef FUSIOND_WARP_CUH
#define FUSIOND_WARP_CUH

#include "fusiond/array.cuh"
#include "fusiond/block_sync.cuh"
#include "fusiond/vector_move.cuh"

namespace fusiond
{
namespace warp
{

// The value of the lane whose number differs by lane_mask, within groups of `width` lanes. Any copyable type.
// All lanes call; no barrier, no shared memory.
template <typename T> __device__ __forceinline__ T shfl_xor(T var, int lane_mask, int width = 32)
{
    constexpr int words = (sizeof(T) + 3) / 4;
    unsigned bits[words] = {};
    memcpy(bits, &var, sizeof(T));
#pragma unroll
    for (int i = 0; i < words; ++i)
        bits[i] = __shfl_xor_sync(0xffffffffu, bits[i], lane_mask, width);
    memcpy(&var, bits, sizeof(T));
    return var;
}

// The reduction of the values of all lanes, in each lane. All lanes call; no barrier, no shared memory.
template <typename T, typename Func> __device__ __forceinline__ T reduce_lanes(T value, Func op)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        const T other = shfl_xor(value, mask);
        op(value, other);
    }
    return value;
}

// The final step of a row of warps: lane 0 of each has stored its part in parts[0, n), n <= 32; returns their
// reduction in each lane of the calling warp.
template <typename T, typename Func>
__device__ __forceinline__ T reduce_parts(const T *parts, uint32_t n, uint32_t lane, Func op, T init_val)
{
    return reduce_lanes(lane < n ? parts[lane] : init_val, op);
}

// Reduce over threadIdx.x for each (y, z); the extent of x is a multiple of 32. out becomes op(out, reduction).
// All threads of block_dim call. Where the predicate is false init_val counts instead of inp, which is not read.
//   SINGLE_WARP: the extent is 32. No barrier, no shared memory; each lane gets the result.
//   otherwise: three barriers. shared_mem holds extent / 32 * y * z elements; a leading barrier protects it and it is
//   free on return. Only threadIdx.x == 0 gets the result, the others' out stays.
template <bool SINGLE_WARP, bool Aligned, typename T, typename Func, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void warpReduceTIDX(T &out, const T &inp, Func op, T *shared_mem, bool read_write_pred,
                                               block_sync_impl::given<T> init_val, BlockDim block_dim)
{
    T value = read_write_pred ? inp : init_val;
    value = reduce_lanes(value, op);
    if constexpr (SINGLE_WARP) {
        op(out, value);
    } else {
        const uint32_t warps = block_dim.x / 32;
        const uint32_t lane = threadIdx.x % 32;
        T *parts = shared_mem + (threadIdx.y + block_dim.y * threadIdx.z) * warps;
        block_sync::sync<Aligned>(block_dim);
        if (lane == 0)
            parts[threadIdx.x / 32] = value;
        block_sync::sync<Aligned>(block_dim);
        if (threadIdx.x < 32) {
            value = reduce_parts(parts, warps, lane, op, init_val);
            if (lane == 0)
                op(out, value);
        }
        block_sync::sync<Aligned>(block_dim);
    }
}

// From 2023-05 until 2024-12.
template <bool SINGLE_WARP, bool Aligned, typename T, typename Func>
__device__ __forceinline__ void warpReduceTIDX(T &out, const T &inp, Func op, T *shared_mem, bool read_write_pred,
                                               block_sync_impl::given<T> init_val)
{
    warpReduceTIDX<SINGLE_WARP, Aligned>(out, inp, op, shared_mem, read_write_pred, init_val, DefaultBlockDim());
}

// Until 2023-05.
template <bool SINGLE_WARP, typename T, typename Func, typename ThreadIdx, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void warpReduceTIDX(T &out, const T &inp, Func op, const ThreadIdx &, const BlockDim &,
                                               T *shared_mem, bool read_write_pred, block_sync_impl::given<T> init_val)
{
    warpReduceTIDX<SINGLE_WARP, false>(out, inp, op, shared_mem, read_write_pred, init_val, DefaultBlockDim());
}

// The same over x and y together: BDIMX * BDIMY is a multiple of 32 and at most 1024, the extent of z is 1. Shared
// memory: one element per warp. Thread (0, 0) gets the result; each lane if there is one warp.
template <int BDIMX, int BDIMY, bool Aligned, typename T, typename Func, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void warpReduceTIDXY(T &out, const T &inp, Func op, T *shared_mem, bool read_write_pred,
                                                block_sync_impl::given<T> init_val, BlockDim block_dim)
{
    constexpr int threads = BDIMX * BDIMY;
    static_assert(threads % 32 == 0 && threads <= 1024, "warpReduceTIDXY needs whole warps, at most 32");
    constexpr uint32_t warps = threads / 32;
    T value = read_write_pred ? inp : init_val;
    value = reduce_lanes(value, op);
    if constexpr (warps == 1) {
        op(out, value);
    } else {
        const uint32_t position = threadIdx.x + threadIdx.y * BDIMX;
        const uint32_t lane = position % 32;
        block_sync::sync<Aligned>(block_dim);
        if (lane == 0)
            shared_mem[position / 32] = value;
        block_sync::sync<Aligned>(block_dim);
        if (position < 32) {
            value = reduce_parts(shared_mem, warps, lane, op, init_val);
            if (lane == 0)
                op(out, value);
        }
        block_sync::sync<Aligned>(block_dim);
    }
}

// Until 2024-12.
template <int BDIMX, int BDIMY, bool Aligned, typename T, typename Func>
__device__ __forceinline__ void warpReduceTIDXY(T &out, const T &inp, Func op, T *shared_mem, bool read_write_pred,
                                                block_sync_impl::given<T> init_val)
{
    warpReduceTIDXY<BDIMX, BDIMY, Aligned>(out, inp, op, shared_mem, read_write_pred, init_val, DefaultBlockDim());
}

// N reductions over n_threads consecutive threadIdx.x; each of these threads gets all N results (out is overwritten).
// All of them call. inp, out and shared_mem are aligned to N elements. barrier_id serves where not Aligned.
//   SINGLE_WARP: no barrier, no shared memory.
//   otherwise: two barriers; shared_mem holds n_threads / 32 * N elements, is written at once and is free on return.
template <bool SINGLE_WARP, bool Aligned, int N, int n_threads, typename T, typename Func>
__device__ __forceinline__ void iterGroupedStaticWarpAllReduce(T *out, const T *inp, Func op, T *shared_mem,
                                                               uint32_t barrier_id = 1)
{
    static_assert(N * sizeof(T) <= 16 && N * sizeof(T) % 8 == 0, "the group is 8 or 16 bytes");
    static_assert(n_threads % 32 == 0 && (!SINGLE_WARP || n_threads == 32), "whole warps");
    Array<T, N, N> value;
#pragma unroll
    for (int i = 0; i < N; ++i)
        value.array[i] = reduce_lanes(inp[i], op);
    if constexpr (!SINGLE_WARP) {
        const uint32_t own = threadIdx.x / 32;
        if (threadIdx.x % 32 == 0)
            loadGeneric<T, N>(shared_mem + own * N, value.array);
        block_sync::sync<Aligned>(dim3(n_threads, 1, 1), barrier_id);
        loadGeneric<T, N>(value.array, shared_mem);
#pragma unroll
        for (int w = 1; w < n_threads / 32; ++w) {
            Array<T, N, N> other;
            loadGeneric<T, N>(other.array, shared_mem + w * N);
#pragma unroll
            for (int i = 0; i < N; ++i)
                op(value.array[i], other.array[i]);
        }
        block_sync::sync<Aligned>(dim3(n_threads, 1, 1), barrier_id);
    }
#pragma unroll
    for (int i = 0; i < N; ++i)
        out[i] = value.array[i];
}

// One reduction over n_threads consecutive threadIdx.x for each of these threads. As above, with one element per warp
// in shared memory; but with SINGLE_WARP out becomes op(out, reduction).
template <bool SINGLE_WARP, bool Aligned, int n_threads, typename T, typename Func>
__device__ __forceinline__ void staticWarpAllReduceTIDX(T &out, const T &inp, Func op, T *shared_mem,
                                                        uint32_t barrier_id = 1)
{
    static_assert(n_threads % 32 == 0 && (!SINGLE_WARP || n_threads == 32), "whole warps");
    T value = reduce_lanes(inp, op);
    if constexpr (SINGLE_WARP) {
        op(out, value);
    } else {
        if (threadIdx.x % 32 == 0)
            shared_mem[threadIdx.x / 32] = value;
        block_sync::sync<Aligned>(dim3(n_threads, 1, 1), barrier_id);
        value = shared_mem[0];
#pragma unroll
        for (int w = 1; w < n_threads / 32; ++w) {
            const T other = shared_mem[w];
            op(value, other);
        }
        block_sync::sync<Aligned>(dim3(n_threads, 1, 1), barrier_id);
        out = value;
    }
}

} // namespace warp
} // namespace fusiond

#endif
