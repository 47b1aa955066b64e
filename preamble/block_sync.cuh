// The barrier of a block or of its compute threads, in every spelling of kernels in circulation.
#ifndef FUSIOND_BLOCK_SYNC_CUH
#define FUSIOND_BLOCK_SYNC_CUH

#include "fusiond/basic_type_traits.cuh"
#include "fusiond/types.cuh"

namespace fusiond
{

// The extents of the whole block, as the trailing argument of collectives.
struct DefaultBlockDim {
    const uint32_t x, y, z;

    __device__ __forceinline__ DefaultBlockDim() : x(blockDim.x), y(blockDim.y), z(blockDim.z)
    {
    }
    __device__ __forceinline__ operator dim3() const
    {
        return dim3(x, y, z);
    }
};
static_assert(sizeof(DefaultBlockDim) == 12 && alignof(DefaultBlockDim) == 4, "three extents");

namespace block_sync_impl
{
// Chooses overloads: BlockDim has extents (DefaultBlockDim, dim3, or a kernel's own type).
template <typename BlockDim> using if_extents = decltype((void)std::declval<const BlockDim &>().x, int());

// A parameter of this type does not take part in deducing T.
template <typename T> struct Given {
    typedef T type;
};
template <typename T> using given = typename Given<T>::type;
} // namespace block_sync_impl

namespace block_sync
{

// Nothing to do; kernels call it unconditionally before the first collective.
__device__ __forceinline__ void init()
{
}

// All threads that block_dim describes call. Writes to shared and global memory before it are visible to these threads
// after it.
//   Aligned: the whole block calls in one place, without divergence: the block's barrier.
//   otherwise, DefaultBlockDim: the block's barrier, called from divergent code.
//   otherwise, extents: barrier_id over exactly these threads. Their number is a multiple of 32, or the whole block.
template <bool Aligned, typename BlockDim>
__device__ __forceinline__ void sync(BlockDim block_dim, uint32_t barrier_id = 1)
{
    if constexpr (Aligned) {
        __syncthreads();
    } else if constexpr (std::is_same_v<BlockDim, DefaultBlockDim>) {
        __barrier_sync(0);
    } else {
        const uint32_t threads = block_dim.x * block_dim.y * block_dim.z;
        if (threads % 32 == 0)
            __barrier_sync_count(barrier_id, threads);
        else
            __barrier_sync(0);
    }
}

template <bool Aligned> __device__ __forceinline__ void sync()
{
    sync<Aligned>(DefaultBlockDim());
}

// The spelling until 2023-05.
__device__ __forceinline__ void sync()
{
    sync<false>(DefaultBlockDim());
}

} // namespace block_sync
} // namespace fusiond

#endif
