// Scalar pointwise, 2020: two-argument tensors with size and stride, size_t loops, bare built-in variables.
__global__ void CUDAGeneratedKernel(Tensor<float, 2> T0, Tensor<float, 1> T1, float f0, Tensor<float, 2> T4){
  float T2[1];
  if ((((blockIdx.x * blockDim.x) + threadIdx.x) < (T0.size[0] * T0.size[1]))) {
    for(size_t i10 = 0; i10 < 1; ++i10) {
      T2[i10]
        = T0[((((blockIdx.x * blockDim.x) + threadIdx.x) / T0.size[1]) * T0.stride[0]) + ((((blockIdx.x * blockDim.x) + threadIdx.x) % T0.size[1]) * T0.stride[1])]
        + T1[((((blockIdx.x * blockDim.x) + threadIdx.x) % T0.size[1]) * T1.stride[0])];
      float T3[1];
      T3[0] = relu(T2[i10] * f0);
      T4[((blockIdx.x * blockDim.x) + threadIdx.x)]
        = clamp(T3[0], float(0), float(6));
    }
  }
}
