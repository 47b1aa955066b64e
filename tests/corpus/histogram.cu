// corpus: entry=count N=64|256 M=1|2
extern "C" __global__ void count(unsigned *bins, const unsigned char *in, int n)
{
    __shared__ unsigned mine[$M][$N];
    for (int i = threadIdx.x; i < $M * $N; i += blockDim.x)
        mine[i / $N][i % $N] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[threadIdx.x % $M][in[i] % $N], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < $N; i += blockDim.x)
        for (int k = 0; k < $M; k++)
            atomicAdd(&bins[i], mine[k][i]);
}
