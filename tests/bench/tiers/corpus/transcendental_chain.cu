// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = a[i], y = b[i];
    out[i] = tanh(exp(-x * x) + log(T(1) + y * y)) * cos(x) + sin(T(40) * y);
}
