// corpus: entry=extreme T=float|double
typedef unsigned long long bits_of_double;
typedef unsigned bits_of_float;
__device__ double as_value(bits_of_double b) { return __longlong_as_double((long long)b); }
__device__ float as_value(bits_of_float b) { return __uint_as_float(b); }
__device__ bits_of_double as_bits(double v) { return (bits_of_double)__double_as_longlong(v); }
__device__ bits_of_float as_bits(float v) { return __float_as_uint(v); }
extern "C" __global__ void extreme(bits_of_$T *best, const $T *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    bits_of_$T seen = *best, before;
    do {
        before = seen;
        if (as_value(before) >= in[i])
            break;
        seen = atomicCAS(best, before, as_bits(in[i]));
    } while (seen != before);
}
