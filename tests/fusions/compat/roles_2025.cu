// Warp roles, 2025: barriers of the compute threads alone, extents as dim3, launch bounds, a TMA descriptor.
__global__ void __launch_bounds__(/*maxThreadsPerBlock=*/384, /*minBlocksPerMultiprocessor=*/1) nvfuser_inner_outer_persistent_f0_c1_r0_g0(Tensor<float, 2, 2> T0, const __grid_constant__ TensorMap var1, int64_t i2, Tensor<float, 1, 1> T5, Tensor<int64_t, 1, 1> T6) {
  alignas(128) extern __shared__ char array[];
  void* shared_mem = array;
  const unsigned smem_offset = alignBufferSize(max((((size_t)8 * 1) * sizeof(float)), 6272), 128);
  float* T3 = reinterpret_cast<float*>(array + smem_offset + 0);
  const TensorMap* ptr4;
  ptr4 = &var1;
  if (((nvfuser_index_t)threadIdx.x) >= 256) {
    if (((nvfuser_index_t)threadIdx.x) == 256) {
      T6[0] = (int64_t)ptr4->opaque[0];
    }
    return;
  }
  Array<float, 1, 1> T7;
  T7[0] = T0[(((nvfuser_index_t)blockIdx.x) * T0.alloc_stride[0LL]) + ((nvfuser_index_t)threadIdx.x)];
  T3[((nvfuser_index_t)threadIdx.x)] = T7[0];
  block_sync::sync<false>(dim3(256, 1, 1));
  block_sync::sync<false>(dim3(256, 1, 1), (uint32_t)1);
  Array<float, 1, 1> T8;
  T8[0] = 0.000000000e+00f;
  blockReduce<true, false, false, false>(T8[0], T3[((nvfuser_index_t)threadIdx.x) ^ 1], [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), true, true, float(0.000000000e+00f), dim3(256, 1, 1));
  Array<float, 1, 1> T9;
  warp::staticWarpAllReduceTIDX<false, false, 256>(T9[0], T7[0], [](float &a, float b) { a = max(a, b); }, static_cast<float*>(shared_mem) + ((nvfuser_index_t)threadIdx.y) * 8, 1 + ((nvfuser_index_t)threadIdx.y));
  Array<float, 4, 4> T10;
  Array<float, 4, 4> T11;
  T11.set(T7[0]);
  warp::iterGroupedStaticWarpAllReduce<false, false, 4, 256>(T10.array, T11.array, [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), (uint32_t)1);
  if (((nvfuser_index_t)threadIdx.x) == 0) {
    T5[((nvfuser_index_t)blockIdx.x)] = T8[0] + T9[0] * T10[3] * (float)i2;
  }
}
