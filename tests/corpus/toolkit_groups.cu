// corpus: toolkit entry=sum N=8|32
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void sum(int *out, const int *in)
{
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<$N>(block);
    int value = cg::reduce(tile, in[block.thread_rank()], cg::plus<int>());
    block.sync();
    if (tile.thread_rank() == 0)
        out[tile.meta_group_rank()] = value;
}
