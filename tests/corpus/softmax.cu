// corpus: entry=softmax T=float|double N=64|256
extern "C" __global__ void softmax($T *out, const $T *in, int width)
{
    extern __shared__ char storage[];
    $T *row = reinterpret_cast<$T *>(storage);
    __shared__ $T shared[2];
    if (threadIdx.x == 0) {
        $T top = in[blockIdx.x * width];
        for (int i = 1; i < width; i++)
            top = fmax(top, in[blockIdx.x * width + i]);
        shared[0] = top;
        shared[1] = 0;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += $N) {
        row[i] = exp(in[blockIdx.x * width + i] - shared[0]);
        atomicAdd(&shared[1], row[i]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += $N)
        out[blockIdx.x * width + i] = row[i] / shared[1];
}
