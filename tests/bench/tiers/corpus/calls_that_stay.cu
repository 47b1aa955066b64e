// types: float double
__device__ __noinline__ T mixed(T x, T y, int depth)
{
    T sum = x;
    for (int j = 0; j < depth; j++)
        sum = sum * T(0.5) + y / (T(2) + sum * sum);
    return sum;
}

extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = mixed(a[i], b[i], 5) + mixed(b[i], a[i], i & 7);
}
