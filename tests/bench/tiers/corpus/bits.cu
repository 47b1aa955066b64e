// types: int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned x = (unsigned)a[i], y = (unsigned)b[i];
    out[i] = __popc(x) + __clz(y) + __ffs(x ^ y) + (int)__brev(x) + (int)__byte_perm(x, y, 0x5140) +
             (int)__funnelshift_l(x, y, 13);
}
