// corpus: entry=escape T=float|double N=64|1000
extern "C" __global__ void escape(unsigned short *out, $T x0, $T y0, $T step, int w)
{
    $T cx = x0 + step * (blockIdx.x * blockDim.x + threadIdx.x), cy = y0 + step * blockIdx.y, x = 0, y = 0;
    int n = 0;
    for (; n < $N && x * x + y * y < 4; n++) {
        $T t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
    }
    switch (n % 5) {
    case 0: n += 3; break;
    case 1: n ^= 85; break;
    case 2: n = n * n; break;
    case 3: n -= 7; break;
    default: n = ~n;
    }
    out[blockIdx.y * w + blockIdx.x * blockDim.x + threadIdx.x] = n;
}
