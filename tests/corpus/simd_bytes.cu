// corpus: entry=dot N=1|4
extern "C" __global__ void dot(int *out, const int *a, const int *b)
{
    int sum = 0;
#pragma unroll
    for (int i = 0; i < $N; i++) {
        sum = __dp4a(a[threadIdx.x * $N + i], b[threadIdx.x * $N + i], sum);
        sum += __vabsdiffu4(a[i], b[i]) + __byte_perm(a[i], b[i], 0x5140);
    }
    out[threadIdx.x] = sum;
}
