// Row maximum, 2021: three flags and the built-in variables as arguments, magic zero without a semicolon.
__global__ void kernel1(Tensor<float, 2> T0, Tensor<float, 1> T1) {
  alignas(8) extern __shared__ char array[];
  unsigned offset = 0;
  offset = alignBufferSize(offset, 8);
  void* shared_mem = array + offset;
  DEFINE_MAGIC_ZERO
  float T2[1];
  T2[0] = NEG_INFINITY;
  #pragma unroll
  for(nvfuser_index_t i14 = 0; i14 < 4; ++i14) {
    if ((((i14 + nvfuser_zero) * blockDim.x) + threadIdx.x) < T0.size[1]) {
      T2[0] = fmax(T2[0], T0[(blockIdx.x * T0.stride[0]) + ((((i14 + nvfuser_zero) * blockDim.x) + threadIdx.x) * T0.stride[1])]);
    }
  }
  UPDATE_MAGIC_ZERO
  float T3[1];
  T3[0] = NEG_INFINITY;
  blockReduce<true, false, false>(
    T3[0],
    T2[0],
    [](float &a, float b) { a = fmax(a, b); },
    threadIdx,
    blockDim,
    static_cast<float*>(shared_mem),
    true,
    float(NEG_INFINITY));
  if ((threadIdx.x == 0)) {
    T1[blockIdx.x] = T3[0];
  }
}
