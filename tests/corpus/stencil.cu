// corpus: entry=heat T=float|double N=1|2
extern "C" __global__ void heat($T *__restrict__ out, const $T *__restrict__ in, int w, int h, int d, $T c)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < $N || y < $N || x >= w - $N || y >= h - $N)
        return;
    for (int z = $N; z < d - $N; z++) {
        long at = ((long)z * h + y) * w + x;
        $T sum = -6 * $N * in[at];
#pragma unroll
        for (int k = 1; k <= $N; k++)
            sum += in[at - k] + in[at + k] + in[at - k * w] + in[at + k * w] + in[at - (long)k * w * h] +
                   in[at + (long)k * w * h];
        out[at] = in[at] + c * sum;
    }
}
