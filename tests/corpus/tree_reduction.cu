// corpus: entry=sum T=float|double|int N=128|512
extern "C" __global__ void sum($T *out, const $T *in, int n)
{
    __shared__ $T part[$N];
    $T value = 0;
    for (int i = blockIdx.x * $N + threadIdx.x; i < n; i += gridDim.x * $N)
        value += in[i];
    part[threadIdx.x] = value;
    __syncthreads();
    for (int step = $N / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
