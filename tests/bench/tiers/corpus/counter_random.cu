// types: int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned x = (unsigned)a[i], y = (unsigned)b[i], z = (unsigned)i, w = 0x2545f491u, key = 0x9e3779b9u;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long p = 0xd2511f53ull * x, q = 0xcd9e8d57ull * z;
        x = (unsigned)(q >> 32) ^ y ^ key;
        z = (unsigned)(p >> 32) ^ w ^ (key * 3u);
        y = (unsigned)q;
        w = (unsigned)p;
        key += 0xbb67ae85u;
    }
    out[i] = (int)(x ^ y ^ z ^ w);
}
