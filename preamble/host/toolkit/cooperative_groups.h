/* Cooperative groups of the host device: grid, block, tiles of a warp, and the lanes that are together just now.
 * What is not here: multi_grid, clusters, labeled and binary partitions, tiles above a warp, and the headers beside
 * this one (reduce.h, scan.h, memcpy_async.h). */
#ifndef PREAMBLE_HOST_TOOLKIT_COOPERATIVE_GROUPS_H
#define PREAMBLE_HOST_TOOLKIT_COOPERATIVE_GROUPS_H

namespace cooperative_groups
{

class grid_group
{
  public:
    bool is_valid() const
    {
        return fusiond_host::runtime->cooperative() != 0;
    }
    void sync() const
    {
        fusiond_host::runtime->grid_sync();
    }
    unsigned long long num_blocks() const
    {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    unsigned long long block_rank() const
    {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    unsigned long long size() const
    {
        return num_blocks() * (blockDim.x * blockDim.y * blockDim.z);
    }
    unsigned long long num_threads() const
    {
        return size();
    }
    unsigned long long thread_rank() const
    {
        return block_rank() * (blockDim.x * blockDim.y * blockDim.z) + threadIdx.x +
               blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    dim3 group_dim() const
    {
        return gridDim;
    }
    dim3 dim_blocks() const
    {
        return gridDim;
    }
    dim3 block_index() const
    {
        return blockIdx;
    }
};

class thread_block
{
  public:
    static void sync()
    {
        __syncthreads();
    }
    static unsigned size()
    {
        return blockDim.x * blockDim.y * blockDim.z;
    }
    static unsigned num_threads()
    {
        return size();
    }
    static unsigned thread_rank()
    {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static dim3 group_index()
    {
        return blockIdx;
    }
    static dim3 thread_index()
    {
        return threadIdx;
    }
    static dim3 group_dim()
    {
        return blockDim;
    }
    static dim3 dim_threads()
    {
        return blockDim;
    }
};

// `size` lanes that lie together: a power of two, at most a warp.
template <unsigned tile, typename Parent = void> class thread_block_tile
{
    static_assert(tile >= 1 && tile <= 32 && (tile & (tile - 1)) == 0, "a tile is 1, 2, 4, 8, 16 or 32 threads");
    static unsigned first()
    {
        return fusiond_host::lane & ~(tile - 1);
    }
    static unsigned mask()
    {
        return (tile == 32 ? 0xffffffffu : (1u << tile % 32) - 1) << first();
    }

  public:
    static void sync()
    {
        __syncwarp(mask());
    }
    static constexpr unsigned size()
    {
        return tile;
    }
    static constexpr unsigned num_threads()
    {
        return tile;
    }
    static unsigned thread_rank()
    {
        return fusiond_host::lane & (tile - 1);
    }
    static unsigned meta_group_rank()
    {
        return thread_block::thread_rank() / tile;
    }
    static unsigned meta_group_size()
    {
        return (thread_block::size() + tile - 1) / tile;
    }
    template <typename T> static T shfl(T value, int source)
    {
        return __shfl_sync(mask(), value, source, (int)tile);
    }
    template <typename T> static T shfl_up(T value, unsigned delta)
    {
        return __shfl_up_sync(mask(), value, delta, (int)tile);
    }
    template <typename T> static T shfl_down(T value, unsigned delta)
    {
        return __shfl_down_sync(mask(), value, delta, (int)tile);
    }
    template <typename T> static T shfl_xor(T value, unsigned lanes)
    {
        return __shfl_xor_sync(mask(), value, (int)lanes, (int)tile);
    }
    static int any(int predicate)
    {
        return __any_sync(mask(), predicate);
    }
    static int all(int predicate)
    {
        return __all_sync(mask(), predicate);
    }
    static unsigned ballot(int predicate)
    {
        return __ballot_sync(mask(), predicate) >> first();
    }
    template <typename T> static unsigned match_any(T value)
    {
        return __match_any_sync(mask(), value) >> first();
    }
    template <typename T> static unsigned match_all(T value, int &all)
    {
        return __match_all_sync(mask(), value, &all) >> first();
    }
};

// The lanes of a mask, numbered without gaps.
class coalesced_group
{
    unsigned lanes;
    unsigned position(unsigned rank) const
    {
        unsigned rest = lanes;
        for (; rank > 0 && rest; --rank)
            rest &= rest - 1;
        return rest ? (unsigned)__ffs((int)rest) - 1 : fusiond_host::lane;
    }

  public:
    explicit coalesced_group(unsigned lanes) : lanes(lanes)
    {
    }
    void sync() const
    {
        __syncwarp(lanes);
    }
    unsigned size() const
    {
        return (unsigned)__popc(lanes);
    }
    unsigned num_threads() const
    {
        return size();
    }
    unsigned thread_rank() const
    {
        return (unsigned)__popc(lanes & ((1u << fusiond_host::lane) - 1));
    }
    template <typename T> T shfl(T value, unsigned source) const
    {
        return fusiond_host::shuffle(lanes, value, position(source));
    }
    template <typename T> T shfl_up(T value, unsigned delta) const
    {
        const unsigned rank = thread_rank();
        return fusiond_host::shuffle(lanes, value, rank >= delta ? position(rank - delta) : fusiond_host::lane);
    }
    template <typename T> T shfl_down(T value, unsigned delta) const
    {
        const unsigned rank = thread_rank() + delta;
        return fusiond_host::shuffle(lanes, value, rank < size() ? position(rank) : fusiond_host::lane);
    }
    int any(int predicate) const
    {
        return __any_sync(lanes, predicate);
    }
    int all(int predicate) const
    {
        return __all_sync(lanes, predicate);
    }
    unsigned ballot(int predicate) const
    {
        const unsigned votes = __ballot_sync(lanes, predicate);
        unsigned packed = 0;
        for (unsigned rank = 0, rest = lanes; rest; ++rank, rest &= rest - 1)
            packed |= (votes >> (__ffs((int)rest) - 1) & 1) << rank;
        return packed;
    }
};

inline grid_group this_grid()
{
    return grid_group();
}
inline thread_block this_thread_block()
{
    return thread_block();
}
// The place is the line of the call, as with __activemask.
inline coalesced_group coalesced_threads(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return coalesced_group(__activemask(file, line));
}
template <unsigned tile> inline thread_block_tile<tile, thread_block> tiled_partition(const thread_block &)
{
    return thread_block_tile<tile, thread_block>();
}
template <unsigned tile, unsigned parent, typename P>
inline thread_block_tile<tile, thread_block_tile<parent, P>> tiled_partition(const thread_block_tile<parent, P> &)
{
    static_assert(tile <= parent, "a tile's part is not larger than it");
    return thread_block_tile<tile, thread_block_tile<parent, P>>();
}

template <typename Group> inline void sync(const Group &group)
{
    group.sync();
}
template <typename Group> inline auto thread_rank(const Group &group) -> decltype(group.thread_rank())
{
    return group.thread_rank();
}
template <typename Group> inline auto group_size(const Group &group) -> decltype(group.size())
{
    return group.size();
}

} // namespace cooperative_groups

#endif
