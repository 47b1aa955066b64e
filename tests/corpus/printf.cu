// corpus: entry=speak T=int|double|float
extern "C" __global__ void speak(const $T *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] != in[i] * 1)
        printf("block %d: value %d is %f, not itself\n", blockIdx.x, i, (double)in[i]);
}
