// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T m[4][8];
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int c = 0; c < 8; c++)
            m[r][c] = c < 4 ? a[(i + r * 4 + c) % n] + (r == c ? T(9) : T(0)) : (c - 4 == r ? T(1) : T(0));
#pragma unroll
    for (int p = 0; p < 4; p++) {
        T inverse = T(1) / m[p][p];
#pragma unroll
        for (int c = 0; c < 8; c++)
            m[p][c] *= inverse;
#pragma unroll
        for (int r = 0; r < 4; r++) {
            if (r == p)
                continue;
            T factor = m[r][p];
#pragma unroll
            for (int c = 0; c < 8; c++)
                m[r][c] -= factor * m[p][c];
        }
    }
    out[i] = m[0][4] + m[1][5] * b[i] + m[2][6] - m[3][7] + m[0][7];
}
