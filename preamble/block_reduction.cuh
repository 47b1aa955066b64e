// Reductions within a block.
// op(a, b) folds b into a; it is associative and commutative and init_val is neutral. The order of combination is not
// promised. NaN: op's rule.
// Common to all: every thread of block_dim calls, whatever its predicates. Where read_pred is false init_val counts
// instead of inp, which is not read. The result is folded into out, op(out, reduction), in threads with index 0 in each
// reduced dimension whose write_pred is true; other outs are neither read nor written. shared_mem is written at once
// (the caller's previous use has ended with a barrier) and is free on return.
#ifndef FUSIOND_BLOCK_REDUCTION_CUH
#define FUSIOND_BLOCK_REDUCTION_CUH

#include "fusiond/array.cuh"
#include "fusiond/block_sync.cuh"
#include "fusiond/vector_move.cuh"
#include "fusiond/warp.cuh"

namespace fusiond
{
namespace block_reduction_impl
{

// Where a thread stands: the reduced dimensions in one line, and the others in another. x runs fastest in both.
struct Place {
    uint32_t reduced;   // position along the reduced dimensions
    uint32_t n_reduced; // their extent
    uint32_t kept;
    uint32_t n_kept;
};

template <bool X, bool Y, bool Z>
__device__ __forceinline__ Place place_of(uint32_t x, uint32_t bdim_x, uint32_t bdim_y, uint32_t bdim_z)
{
    Place place = {0, 1, 0, 1};
    const auto fold = [&place](bool reduced, uint32_t index, uint32_t extent) {
        uint32_t &position = reduced ? place.reduced : place.kept;
        uint32_t &n = reduced ? place.n_reduced : place.n_kept;
        position += index * n;
        n *= extent;
    };
    fold(X, x, bdim_x);
    fold(Y, threadIdx.y, bdim_y);
    fold(Z, threadIdx.z, bdim_z);
    return place;
}

// Whole warps along x: shuffles, then one warp per kept position folds the warps' parts. No barrier if each result
// comes from one warp, else two. shared_mem: one element per warp. The result is in the threads with reduced index 0.
template <bool Y, bool Z, bool Aligned, typename T, typename Func, typename BlockDim>
__device__ __forceinline__ T reduce_warps(T value, Func op, T *shared_mem, T init_val, BlockDim block_dim)
{
    const Place place = place_of<true, Y, Z>(threadIdx.x / 32, block_dim.x / 32, block_dim.y, block_dim.z);
    value = warp::reduce_lanes(value, op);
    if (place.n_reduced == 1)
        return value;
    T *parts = shared_mem + place.kept * place.n_reduced;
    const uint32_t lane = threadIdx.x % 32;
    if (lane == 0)
        parts[place.reduced] = value;
    block_sync::sync<Aligned>(block_dim);
    if (place.reduced == 0)
        value = warp::reduce_parts(parts, place.n_reduced, lane, op, init_val);
    block_sync::sync<Aligned>(block_dim);
    return value;
}

// Any extents: a tree in shared memory, ceil(log2(extent)) + 1 barriers, none if the extent is 1.
// shared_mem: one element per thread.
template <bool X, bool Y, bool Z, bool Aligned, typename T, typename Func, typename BlockDim>
__device__ __forceinline__ T reduce_tree(T value, Func op, T *shared_mem, BlockDim block_dim)
{
    const Place place = place_of<X, Y, Z>(threadIdx.x, block_dim.x, block_dim.y, block_dim.z);
    if (place.n_reduced == 1)
        return value;
    // Neighbours along x stay neighbours in memory.
    const uint32_t step = X ? 1 : place.n_kept;
    T *own =
        shared_mem + (X ? place.kept * place.n_reduced + place.reduced : place.reduced * place.n_kept + place.kept);
    *own = value;
    block_sync::sync<Aligned>(block_dim);
    for (uint32_t n = place.n_reduced; n > 1;) {
        const uint32_t rest = (n + 1) / 2;
        if (place.reduced + rest < n) {
            const T other = own[rest * step];
            op(value, other);
            *own = value;
        }
        n = rest;
        block_sync::sync<Aligned>(block_dim);
    }
    return value;
}

} // namespace block_reduction_impl

// Reduce over the enabled thread dimensions, for each combination of the others. Any extents.
// shared_mem holds one element per thread of block_dim. If x is reduced over a multiple of 32: at most two barriers;
// else one more than the logarithm of the extent.
template <bool X_REDUCE, bool Y_REDUCE, bool Z_REDUCE, bool Aligned, typename T, typename Func, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void blockReduce(T &out, const T &inp, Func op, T *shared_mem, bool read_pred,
                                            bool write_pred, block_sync_impl::given<T> init_val, BlockDim block_dim)
{
    T value = read_pred ? inp : init_val;
    if (X_REDUCE && block_dim.x % 32 == 0)
        value =
            block_reduction_impl::reduce_warps<Y_REDUCE, Z_REDUCE, Aligned>(value, op, shared_mem, init_val, block_dim);
    else
        value =
            block_reduction_impl::reduce_tree<X_REDUCE, Y_REDUCE, Z_REDUCE, Aligned>(value, op, shared_mem, block_dim);
    const bool holds =
        (!X_REDUCE || threadIdx.x == 0) && (!Y_REDUCE || threadIdx.y == 0) && (!Z_REDUCE || threadIdx.z == 0);
    if (holds && write_pred)
        op(out, value);
}

// One predicate for reading and writing.
template <bool X_REDUCE, bool Y_REDUCE, bool Z_REDUCE, bool Aligned, typename T, typename Func, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void blockReduce(T &out, const T &inp, Func op, T *shared_mem, bool read_write_pred,
                                            block_sync_impl::given<T> init_val, BlockDim block_dim)
{
    blockReduce<X_REDUCE, Y_REDUCE, Z_REDUCE, Aligned>(out, inp, op, shared_mem, read_write_pred, read_write_pred,
                                                       init_val, block_dim);
}

// From 2023-05 until 2024-12, with two predicates and with one.
template <bool X_REDUCE, bool Y_REDUCE, bool Z_REDUCE, bool Aligned, typename T, typename Func>
__device__ __forceinline__ void blockReduce(T &out, const T &inp, Func op, T *shared_mem, bool read_pred,
                                            bool write_pred, block_sync_impl::given<T> init_val)
{
    blockReduce<X_REDUCE, Y_REDUCE, Z_REDUCE, Aligned>(out, inp, op, shared_mem, read_pred, write_pred, init_val,
                                                       DefaultBlockDim());
}

template <bool X_REDUCE, bool Y_REDUCE, bool Z_REDUCE, bool Aligned, typename T, typename Func>
__device__ __forceinline__ void blockReduce(T &out, const T &inp, Func op, T *shared_mem, bool read_write_pred,
                                            block_sync_impl::given<T> init_val)
{
    blockReduce<X_REDUCE, Y_REDUCE, Z_REDUCE, Aligned>(out, inp, op, shared_mem, read_write_pred, read_write_pred,
                                                       init_val, DefaultBlockDim());
}

// Until 2023-05, likewise.
template <bool X_REDUCE, bool Y_REDUCE, bool Z_REDUCE, typename T, typename Func, typename ThreadIdx, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void blockReduce(T &out, const T &inp, Func op, const ThreadIdx &, const BlockDim &,
                                            T *shared_mem, bool read_pred, bool write_pred,
                                            block_sync_impl::given<T> init_val)
{
    blockReduce<X_REDUCE, Y_REDUCE, Z_REDUCE, false>(out, inp, op, shared_mem, read_pred, write_pred, init_val,
                                                     DefaultBlockDim());
}

template <bool X_REDUCE, bool Y_REDUCE, bool Z_REDUCE, typename T, typename Func, typename ThreadIdx, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void blockReduce(T &out, const T &inp, Func op, const ThreadIdx &, const BlockDim &,
                                            T *shared_mem, bool read_write_pred, block_sync_impl::given<T> init_val)
{
    blockReduce<X_REDUCE, Y_REDUCE, Z_REDUCE, false>(out, inp, op, shared_mem, read_write_pred, read_write_pred,
                                                     init_val, DefaultBlockDim());
}

// N reductions over threadIdx.y at once, for each threadIdx.x; the extent of z is 1. inp and out are a thread's arrays
// of N. shared_mem holds N elements per thread; inp and shared_mem are aligned to the smaller of 16 bytes and N
// elements. One barrier more than the logarithm of the extent, none if it is 1.
template <bool Aligned, int N, typename T, typename Func, typename BlockDim, block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void blockIterGroupedYdimReduce(T *out, const T *inp, Func op, T *shared_mem, bool read_pred,
                                                           bool write_pred, block_sync_impl::given<T> init_val,
                                                           BlockDim block_dim)
{
    static_assert(N == 2 || N == 4 || N == 8 || N == 16, "blockIterGroupedYdimReduce: N is 2, 4, 8 or 16");
    // Pieces of one access; all pieces of one number lie together, so that neighbours along x use other banks.
    constexpr int piece = N * sizeof(T) <= 16 ? N : 16 / (int)sizeof(T);
    const uint32_t threads = block_dim.x * block_dim.y;
    T *own = shared_mem + (threadIdx.y * block_dim.x + threadIdx.x) * piece;
    Array<T, N, piece> value;
#pragma unroll
    for (int i = 0; i < N; ++i)
        value.array[i] = read_pred ? inp[i] : init_val;

    const auto store = [&]() {
#pragma unroll
        for (int i = 0; i < N; i += piece)
            loadGeneric<T, piece>(own + i * threads, &value.array[i]);
    };
    if (block_dim.y > 1) {
        store();
        block_sync::sync<Aligned>(block_dim);
    }
    for (uint32_t n = block_dim.y; n > 1;) {
        const uint32_t rest = (n + 1) / 2;
        if (threadIdx.y + rest < n) {
            T *others = own + rest * block_dim.x * piece;
#pragma unroll
            for (int i = 0; i < N; i += piece) {
                Array<T, piece, piece> other;
                loadGeneric<T, piece>(other.array, others + i * threads);
#pragma unroll
                for (int k = 0; k < piece; ++k)
                    op(value.array[i + k], other.array[k]);
            }
            store();
        }
        n = rest;
        block_sync::sync<Aligned>(block_dim);
    }
    if (threadIdx.y == 0 && write_pred) {
#pragma unroll
        for (int i = 0; i < N; ++i)
            op(out[i], value.array[i]);
    }
}

template <bool Aligned, int N, typename T, typename Func, typename BlockDim, block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void blockIterGroupedYdimReduce(T *out, const T *inp, Func op, T *shared_mem,
                                                           bool read_write_pred, block_sync_impl::given<T> init_val,
                                                           BlockDim block_dim)
{
    blockIterGroupedYdimReduce<Aligned, N>(out, inp, op, shared_mem, read_write_pred, read_write_pred, init_val,
                                           block_dim);
}

// Until 2024-12, with two predicates and with one.
template <bool Aligned, int N, typename T, typename Func>
__device__ __forceinline__ void blockIterGroupedYdimReduce(T *out, const T *inp, Func op, T *shared_mem, bool read_pred,
                                                           bool write_pred, block_sync_impl::given<T> init_val)
{
    blockIterGroupedYdimReduce<Aligned, N>(out, inp, op, shared_mem, read_pred, write_pred, init_val,
                                           DefaultBlockDim());
}

template <bool Aligned, int N, typename T, typename Func>
__device__ __forceinline__ void blockIterGroupedYdimReduce(T *out, const T *inp, Func op, T *shared_mem,
                                                           bool read_write_pred, block_sync_impl::given<T> init_val)
{
    blockIterGroupedYdimReduce<Aligned, N>(out, inp, op, shared_mem, read_write_pred, read_write_pred, init_val,
                                           DefaultBlockDim());
}

} // namespace fusiond

#endif
