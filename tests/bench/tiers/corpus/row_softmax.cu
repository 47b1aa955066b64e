// types: float double
extern "C" __global__ void k(const T *a, const T *b, T *out, int n)
{
    __shared__ T shared[256];
    int row = blockIdx.x * 256, t = threadIdx.x;
    if (row + t >= n)
        return;
    T most = a[row + t];
    shared[t] = most;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half)
            shared[t] = fmax(shared[t], shared[t + half]);
        __syncthreads();
    }
    most = shared[0];
    __syncthreads();
    T own = exp(a[row + t] - most);
    shared[t] = own;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half)
            shared[t] += shared[t + half];
        __syncthreads();
    }
    out[row + t] = own / shared[0] + b[row + t];
}
