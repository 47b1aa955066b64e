// x / sqrt(mean of all squares), in one cooperative launch: partial sums, a barrier of the grid, the result.
#include <cooperative_groups.h>

extern "C" __global__ void cooperative_norm(const float *x, float *partial, float *out, int n)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    __shared__ float sums[32];
    float sum = 0;
    for (long long i = grid.thread_rank(); i < n; i += grid.size())
        sum += x[i] * x[i];
    auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
    for (unsigned offset = tile.size() / 2; offset > 0; offset /= 2)
        sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0)
        sums[tile.meta_group_rank()] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned i = 1; i < tile.meta_group_size(); ++i)
            sum += sums[i];
        partial[blockIdx.x] = sum;
    }
    grid.sync();
    float all = 0;
    for (unsigned i = 0; i < gridDim.x; ++i)
        all += partial[i];
    const float scale = rsqrtf(all / n);
    for (long long i = grid.thread_rank(); i < n; i += grid.size())
        out[i] = x[i] * scale;
    grid.sync();
    if (grid.thread_rank() == 0)
        partial[0] = scale;
}
