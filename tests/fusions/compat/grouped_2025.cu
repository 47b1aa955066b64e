// Column sums of groups of four, 2025: iteration-grouped reduction, decayed arrays, volatile stores.
__global__ void nvfuser_reduction_f0_c1_r0_g0(Tensor<float, 2, 2> T0, Tensor<float, 1, 1> T1, Tensor<float, 1, 1> T9) {
  alignas(16) extern __shared__ char array[];
  void* shared_mem = array;
  NVFUSER_DEFINE_MAGIC_ZERO;
  nvfuser_index_t i0;
  i0 = 4 * (((nvfuser_index_t)threadIdx.x) + (((nvfuser_index_t)blockDim.x) * ((nvfuser_index_t)blockIdx.x)));
  bool b1;
  b1 = (i0 + 3) < T0.logical_size[1LL];
  Array<float, 4, 4> T3;
  T3.set(float(0.000000000e+00f));
  #pragma unroll 1
  for(nvfuser_index_t i2 = 0; i2 < (ceilDiv(T0.logical_size[0LL], ((nvfuser_index_t)blockDim.y))); ++i2) {
    nvfuser_index_t i3;
    i3 = ((nvfuser_index_t)threadIdx.y) + (((nvfuser_index_t)blockDim.y) * i2);
    Array<float, 4, 4> T2;
    T2.set(float(0));
    if (b1 && (i3 < T0.logical_size[0LL])) {
      loadGlobalToLocal<float, /*vec_size=*/4, /*is_volatile=*/false, CacheOp::Global>(&T2[0],  &T0[(T0.logical_size[1LL] * i3) + (i0 + nvfuser_zero)]);
    }
    #pragma unroll
    for(nvfuser_index_t i4 = 0; i4 < 4; ++i4) {
      T3[i4] = T3[i4] + T2[i4];
    }
  }
  Array<float, 4, 4> T4;
  (*reinterpret_cast<Array<float, 4, 4>*>(&T4[0])).set(0);
  blockIterGroupedYdimReduce<true, 4>(*(float(*)[4])(&T4[0]), *(float(*)[4])(&T3[0]), [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), b1, b1, float(0.000000000e+00f), DefaultBlockDim());
  Array<float, 4, 1> T5;
  T5.set(0);
  blockIterGroupedYdimReduce<true, 4>(T5.array, T3.array, [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), b1, float(0), DefaultBlockDim());
  if (b1 && ((nvfuser_index_t)threadIdx.y) == 0) {
    loadLocalToGlobal<float, /*vec_size=*/4, /*is_volatile=*/true>(&*(volatile float*)&T9[i0], &T4[0]);
    loadGlobalToGlobal<float, /*vec_size=*/4, /*is_volatile_to=*/false, /*is_volatile_from=*/true>(&T1[i0], &*(volatile float*)&T9[i0]);
  }
}
