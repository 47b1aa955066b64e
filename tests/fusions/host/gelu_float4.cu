// A grid-stride loop over float4, with launch bounds, restrict and a tail.
extern "C" __global__ void __launch_bounds__(256, 2)
gelu_float4(const float *__restrict__ x, const float *__restrict__ bias, float *__restrict__ out, int n, int columns)
{
    const int stride = blockDim.x * gridDim.x;
    const int vectors = n / 4;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        float4 v = reinterpret_cast<const float4 *>(x)[i];
        float *p = &v.x;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float y = p[k] + __ldg(&bias[(4 * i + k) % columns]);
            p[k] = 0.5f * y * (1.0f + erff(y * 0.70710678118654752f));
        }
        reinterpret_cast<float4 *>(out)[i] = make_float4(v.x, v.y, v.z, v.w);
    }
    const int rest = 4 * vectors + blockIdx.x * blockDim.x + threadIdx.x;
    if (rest < n) {
        const float y = x[rest] + bias[rest % columns];
        out[rest] = 0.5f * y * (1.0f + erff(y * 0.70710678118654752f));
    }
}
