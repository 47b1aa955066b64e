// corpus: toolkit entry=blend T=__half|__half2
#include <cuda_fp16.h>
extern "C" __global__ void blend($T *out, const $T *a, const $T *b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i] * b[i] + a[i];
}
