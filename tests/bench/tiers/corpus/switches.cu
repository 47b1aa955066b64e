// types: float int
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    T x = a[i], y = b[i];
    switch ((i ^ (i >> 5)) % 11) {
    case 0: x = x + y; break;
    case 1: x = x - y; break;
    case 2: x = x * y; break;
    case 3: x = y > T(0) ? x : -x; break;
    case 4: x = x * x; break;
    case 5: x = x + T(i & 15); break;
    case 6: x = y + y; break;
    case 7: x = T(int(x) & 31); break;
    case 8: x = x < y ? x : y; break;
    case 9: x = x * T(3) - y; break;
    default: x = y; break;
    }
    out[i] = x;
}
