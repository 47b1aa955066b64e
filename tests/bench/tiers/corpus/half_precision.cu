// types: float
#include <cuda_fp16.h>

extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    __half x = __float2half(a[i]), y = __float2half(b[i]);
    __half sum = __hfma(x, y, x);
#pragma unroll
    for (int j = 0; j < 8; j++)
        sum = __hadd(__hmul(sum, y), x);
    out[i] = __half2float(sum) + __half2float(__hdiv(x, __hadd(y, __float2half(3.0f))));
}
