// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T re[64], im[64];
#pragma unroll
    for (int j = 0; j < 64; j++) {
        re[j] = a[(i + j) % n];
        im[j] = b[(i + j) % n];
    }
#pragma unroll
    for (int span = 32; span > 0; span /= 2) {
#pragma unroll
        for (int j = 0; j < 64; j++) {
            if (j & span)
                continue;
            T wr, wi;
            sincospi(-T(j % span) / T(span), &wi, &wr);
            T dr = re[j] - re[j + span], di = im[j] - im[j + span];
            re[j] += re[j + span];
            im[j] += im[j + span];
            re[j + span] = dr * wr - di * wi;
            im[j + span] = dr * wi + di * wr;
        }
    }
    T sum = 0;
#pragma unroll
    for (int j = 0; j < 64; j++)
        sum += re[j] * re[j] + im[j] * T(j);
    out[i] = sum;
}
