// Broadcast within a block.
#ifndef FUSIOND_BROADCAST_CUH
#define FUSIOND_BROADCAST_CUH

#include "fusiond/block_sync.cuh"

namespace fusiond
{
namespace broadcast
{

// Each thread with a true predicate gets inp of the thread with index 0 in every enabled dimension and its own index
// in the others (unspecified if that thread's predicate is false). out is overwritten.
// All threads of block_dim call. Two barriers. shared_mem holds one element per combination of the other dimensions,
// is written at once and is free on return. NaN payloads are kept.
template <bool X_THREAD, bool Y_THREAD, bool Z_THREAD, bool Aligned, typename T, typename BlockDim,
          block_sync_impl::if_extents<BlockDim> = 0>
__device__ __forceinline__ void blockBroadcast(T &out, const T &inp, T *shared_mem, bool read_write_pred,
                                               BlockDim block_dim)
{
    const bool source =
        (!X_THREAD || threadIdx.x == 0) && (!Y_THREAD || threadIdx.y == 0) && (!Z_THREAD || threadIdx.z == 0);
    uint32_t position = Z_THREAD ? 0 : threadIdx.z;
    position = Y_THREAD ? position : position * block_dim.y + threadIdx.y;
    position = X_THREAD ? position : position * block_dim.x + threadIdx.x;
    if (source && read_write_pred)
        shared_mem[position] = inp;
    block_sync::sync<Aligned>(block_dim);
    if (read_write_pred)
        out = shared_mem[position];
    block_sync::sync<Aligned>(block_dim);
}

// From 2023-05 until 2024-12.
template <bool X_THREAD, bool Y_THREAD, bool Z_THREAD, bool Aligned, typename T>
__device__ __forceinline__ void blockBroadcast(T &out, const T &inp, T *shared_mem, bool read_write_pred)
{
    blockBroadcast<X_THREAD, Y_THREAD, Z_THREAD, Aligned>(out, inp, shared_mem, read_write_pred, DefaultBlockDim());
}

// Until 2023-05.
template <bool X_THREAD, bool Y_THREAD, bool Z_THREAD, typename T>
__device__ __forceinline__ void blockBroadcast(T &out, const T &inp, T *shared_mem, bool read_write_pred)
{
    blockBroadcast<X_THREAD, Y_THREAD, Z_THREAD, false>(out, inp, shared_mem, read_write_pred, DefaultBlockDim());
}

} // namespace broadcast
} // namespace fusiond

#endif
