// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = a[i], y = b[i], z = a[(i + 1) % n], u = b[(i + 1) % n], v = a[(i + 2) % n], w = b[(i + 2) % n];
    for (int sweep = 0; sweep < 6; sweep++) {
        T angle = atan2(T(2) * u, x - y) * T(0.5), c = cos(angle), s = sin(angle);
        T nx = c * c * x + T(2) * c * s * u + s * s * y, ny = s * s * x - T(2) * c * s * u + c * c * y;
        T nv = c * v + s * w, nw = c * w - s * v;
        x = nx;
        y = ny;
        u = T(0.1) * w;
        v = nv;
        w = nw * T(0.5);
        z = z + v * w;
    }
    out[i] = x + y + z;
}
