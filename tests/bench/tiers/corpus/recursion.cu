// types: float int
__device__ T descend(T x, int depth)
{
    return depth == 0 ? x : descend(x + T(depth), depth - 1) + T(2) * descend(x - T(1), depth - 2 > 0 ? depth - 2 : 0);
}

extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = descend(a[i], 3 + (i & 3)) + b[i];
}
