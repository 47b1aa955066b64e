// corpus: toolkit entry=reduce T=float|int N=128
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
extern "C" __global__ void reduce($T *out, const $T *in)
{
    using Reduce = cub::BlockReduce<$T, $N>;
    using Scan = cub::BlockScan<$T, $N>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
    } storage;
    $T value = in[blockIdx.x * $N + threadIdx.x], before;
    $T all = Reduce(storage.reduce).Sum(value);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(value, before);
    out[blockIdx.x * $N + threadIdx.x] = before;
    if (threadIdx.x == 0)
        out[blockIdx.x] = all;
}
