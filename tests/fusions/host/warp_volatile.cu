// A sum the old way: volatile shared memory, the last warp without __syncthreads, __syncwarp instead.
template <unsigned blockSize> __device__ void last_warp(volatile float *s, unsigned tid)
{
    float v = s[tid];
    if (blockSize >= 64) { v += s[tid + 32]; __syncwarp(); s[tid] = v; __syncwarp(); }
    if (blockSize >= 32) { v += s[tid + 16]; __syncwarp(); s[tid] = v; __syncwarp(); }
    v += s[tid + 8]; __syncwarp(); s[tid] = v; __syncwarp();
    v += s[tid + 4]; __syncwarp(); s[tid] = v; __syncwarp();
    v += s[tid + 2]; __syncwarp(); s[tid] = v; __syncwarp();
    v += s[tid + 1]; __syncwarp(); s[tid] = v; __syncwarp();
}

template <unsigned blockSize> __global__ void warp_volatile(const float *in, float *out, unsigned n)
{
    extern __shared__ float sdata[];
    const unsigned tid = threadIdx.x;
    unsigned i = blockIdx.x * (blockSize * 2) + tid;
    float sum = 0;
    for (; i < n; i += blockSize * 2 * gridDim.x) {
        sum += in[i];
        if (i + blockSize < n)
            sum += in[i + blockSize];
    }
    sdata[tid] = sum;
    __syncthreads();
    if (blockSize >= 512) { if (tid < 256) sdata[tid] += sdata[tid + 256]; __syncthreads(); }
    if (blockSize >= 256) { if (tid < 128) sdata[tid] += sdata[tid + 128]; __syncthreads(); }
    if (blockSize >= 128) { if (tid < 64) sdata[tid] += sdata[tid + 64]; __syncthreads(); }
    if (tid < 32)
        last_warp<blockSize>(sdata, tid);
    if (tid == 0)
        out[blockIdx.x] = sdata[0];
}
