// corpus: entry=filter N=5|9
__constant__ float weights[$N] = {0.1f, 0.2f, 0.4f};
__device__ int calls = 3;
extern __shared__ float window[];
extern "C" __global__ void filter(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    window[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < $N; k++)
        if (threadIdx.x + k < blockDim.x)
            sum += weights[k] * window[threadIdx.x + k];
    if (i < n)
        out[i] = sum + calls;
}
