// corpus: entry=hash T=unsigned|unsigned_long N=3|10
typedef unsigned long unsigned_long;
extern "C" __global__ void hash($T *out, const $T *in, $T m)
{
    $T x = in[threadIdx.x];
    for (int i = 0; i < $N; i++) {
        x ^= x >> 13;
        x *= ($T)0x9e3779b97f4a7c15ull;
        x = x / (m + i) + x % (m + 2 * i) + __popcll(x) + __clzll((long long)x);
        x = (x << 7) | (x >> (sizeof(x) * 8 - 7));
    }
    out[threadIdx.x] = x + __brev((unsigned)x) + __umulhi((unsigned)x, (unsigned)m);
}
