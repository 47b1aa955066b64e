// The sum of all elements: a block's by blockReduce, the grid's by one atomicAdd per block.
__global__ void atomic_mean(Tensor<float, 1, 1> T0, Tensor<float, 0, 0> T1)
{
    alignas(16) extern __shared__ char array[];
    Array<float, 1, 1> T2;
    T2[0] = 0.f;
    for (nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x; i < T0.logical_size[0]; i += blockDim.x * gridDim.x)
        T2[0] = T2[0] + T0[i];
    Array<float, 1, 1> T3;
    T3[0] = 0.f;
    blockReduce<true, false, false, true>(
        T3[0], T2[0], [](float &a, float b) { a = a + b; }, reinterpret_cast<float *>(array), true, true, 0.f,
        DefaultBlockDim());
    if (threadIdx.x == 0)
        atomicAdd(&T1[0], T3[0] / (float)T0.logical_size[0]);
}
