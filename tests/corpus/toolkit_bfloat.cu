// corpus: toolkit entry=normalise T=__nv_bfloat16
#include <cuda_bf16.h>
extern "C" __global__ void normalise($T *out, const $T *in, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = __bfloat162float(in[i]);
    out[i] = __float2bfloat16_rn(x * scale + rsqrtf(x * x + 1e-6f));
}
