// Sum over x and y, 2023-05: the Aligned flag, no built-in variables, three-argument tensors that still have size.
__global__ void kernel3(Tensor<double, 2, 2> T0, Tensor<double, 1, 1> T1) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = 0;
  void* shared_mem = array;
  NVFUSER_DEFINE_MAGIC_ZERO;
  int64_t i0;
  i0 = ceilDiv(T0.size[1], ((nvfuser_index_t)blockDim.x));
  double T2[1];
  T2[0] = 0.00000000000000000e+00;
  for(nvfuser_index_t i1 = 0; i1 < i0; ++i1) {
    nvfuser_index_t i2;
    i2 = (i1 * ((nvfuser_index_t)blockDim.x)) + ((nvfuser_index_t)threadIdx.x);
    if ((i2 < T0.size[1]) && (((nvfuser_index_t)threadIdx.y) < T0.size[0])) {
      T2[0] = T2[0] + T0[((T0.stride[0] * ((nvfuser_index_t)threadIdx.y)) + (T0.stride[1] * (i2 + nvfuser_zero)))];
    }
    NVFUSER_UPDATE_MAGIC_ZERO;
  }
  double T3[1];
  T3[0] = 0.00000000000000000e+00;
  blockReduce<true, true, false, true>(T3[0], T2[0], [](double &a, double b) { a = a + b; }, reinterpret_cast<double*>(array + smem_offset), true, true, double(0.00000000000000000e+00));
  block_sync::sync<true>();
  bool T4[1];
  T4[0] = true;
  blockReduce<true, true, false, false>(T4[0], (T2[0] >= 0.0), [](bool &a, bool b) { a = a && b; }, static_cast<bool*>(shared_mem), true, true);
  if (((nvfuser_index_t)threadIdx.x) == 0 && ((nvfuser_index_t)threadIdx.y) == 0) {
    T1[0] = T4[0] ? T3[0] : -T3[0];
  }
}
