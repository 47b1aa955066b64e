// Log softmax of rows: shuffles in a warp, static and two dynamic shared arrays (which are one memory).
__global__ void log_softmax(Tensor<__half, 2, 2> T0, Tensor<float, 2, 2> T1)
{
    extern __shared__ float row[];
    extern __shared__ unsigned words[];
    __shared__ float parts[32];
    __shared__ float both[2];
    const nvfuser_index_t n = T0.logical_size[1];
    const int warps = blockDim.x / 32;
    float largest = NEG_INFINITY;
    for (nvfuser_index_t i = threadIdx.x; i < n; i += blockDim.x) {
        words[i] = __float_as_uint(__half2float(T0[T0.alloc_stride[0] * blockIdx.x + i]));
        largest = fmaxf(largest, row[i]);
    }
    for (int offset = 16; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_down_sync(0xffffffff, largest, offset));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = largest;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < warps; ++i)
            largest = fmaxf(largest, parts[i]);
        both[0] = largest;
    }
    __syncthreads();
    float sum = 0;
    for (nvfuser_index_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += __expf(row[i] - both[0]);
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = (int)threadIdx.x < warps ? parts[threadIdx.x] : 0.f;
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, offset);
        if (threadIdx.x == 0)
            both[1] = __logf(sum);
    }
    __syncthreads();
    for (nvfuser_index_t i = threadIdx.x; i < n; i += blockDim.x)
        T1[T1.alloc_stride[0] * blockIdx.x + i] = row[i] - both[0] - both[1];
}
