// Column sums in a two-dimensional block, 2023 spelling: reduction over y alone, 64-bit accumulators.
__global__ void nvfuser_reduction_f0_c1_r0_g0(Tensor<float, 2, 2> T0, Tensor<double, 1, 1> T1)
{
    alignas(16) extern __shared__ char array[];
    void *shared_mem = array;
    nvfuser_index_t i0;
    i0 = ((nvfuser_index_t)threadIdx.x) + (((nvfuser_index_t)blockDim.x) * ((nvfuser_index_t)blockIdx.x));
    double T2[1];
    T2[0] = 0.0;
    for (nvfuser_index_t i1 = ((nvfuser_index_t)threadIdx.y); i1 < T0.logical_size[0];
         i1 += ((nvfuser_index_t)blockDim.y)) {
        if (i0 < T0.logical_size[1])
            T2[0] = T2[0] + (double)T0[(T0.alloc_stride[0] * i1) + (T0.alloc_stride[1] * i0)];
    }
    double T3[1];
    T3[0] = 0.0;
    blockReduce<false, true, false, true>(
        T3[0], T2[0], [](double &a, double b) { a = a + b; }, static_cast<double *>(shared_mem), true, true, 0.0);
    if (((nvfuser_index_t)threadIdx.y) == 0 && i0 < T0.logical_size[1])
        T1[i0] = T3[0];
}
