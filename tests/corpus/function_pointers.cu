// corpus: entry=dispatch T=int|float
typedef $T (*operation)($T, $T);
__device__ $T add($T a, $T b) { return a + b; }
__device__ $T sub($T a, $T b) { return a - b; }
__device__ $T mul($T a, $T b) { return a * b; }
__device__ operation table[] = {add, sub, mul};
extern "C" __global__ void dispatch($T *out, const $T *in, const unsigned char *what)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = table[what[i] % 3](in[2 * i], in[2 * i + 1]);
}
