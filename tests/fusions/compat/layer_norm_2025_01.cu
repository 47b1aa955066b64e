// Layer norm of bf16 rows, 2025-01: trailing block dimensions, all locals are arrays.
__global__ void nvfuser_inner_persistent_f0_c1_r0_g0(Tensor<__bfloat, 2, 2> T0, Tensor<__bfloat, 1, 1> T1, Tensor<__bfloat, 1, 1> T2, Tensor<__bfloat, 2, 2> T20, Tensor<float, 2, 2> T21) {
  alignas(16) extern __shared__ char array[];
  const unsigned smem_offset = alignBufferSize(((nvfuser_index_t)blockDim.x) * sizeof(float), 16);
  NVFUSER_DEFINE_MAGIC_ZERO;
  void* shared_mem = array;
  __bfloat* T30 = reinterpret_cast<__bfloat*>(array + smem_offset + 0);
  nvfuser_index_t i0;
  i0 = T0.logical_size[1LL];
  bool b1;
  b1 = ((4 * ((nvfuser_index_t)threadIdx.x)) + 3) < i0;
  Array<__bfloat, 4, 4> T3;
  (b1) ? loadGlobalToLocal<__bfloat, /*vec_size=*/4, /*is_volatile=*/false, CacheOp::Streaming>(&T3[0],  &T0[(i0 * ((nvfuser_index_t)blockIdx.x)) + (4 * ((nvfuser_index_t)threadIdx.x))]) : arraySet<__bfloat, 4>(&T3[0], (__bfloat)0);
  loadGeneric<__bfloat, 4>( &T30[4 * ((nvfuser_index_t)threadIdx.x)], &T3[0]);
  Array<float, 4, 4> T4;
  Array<float, 1, 1> T5;
  T5[0] = 0.000000000e+00f;
  #pragma unroll
  for(nvfuser_index_t i2 = 0; i2 < 4; ++i2) {
    T4[i2] = __bfloat2float(T3[i2]);
    T5[0] = T5[0] + T4[i2];
  }
  NVFUSER_UPDATE_MAGIC_ZERO;
  Array<float, 1, 1> T6;
  T6.set(0.000000000e+00f);
  blockReduce<true, false, false, true>(T6[0], T5[0], [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), true, float(0.000000000e+00f), DefaultBlockDim());
  Array<float, 1, 1> T7;
  broadcast::blockBroadcast<true, false, false, true>(T7[0], T6[0], static_cast<float*>(shared_mem), true, DefaultBlockDim());
  Array<float, 1, 1> T8;
  T8[0] = T7[0] * reciprocal((float)i0);
  Array<float, 1, 1> T9;
  T9[0] = 0.000000000e+00f;
  #pragma unroll
  for(nvfuser_index_t i3 = 0; i3 < 4; ++i3) {
    Array<float, 1, 1> T10;
    T10[0] = (b1) ? T4[i3] - T8[0] : 0.000000000e+00f;
    T9[0] = T9[0] + (T10[0] * T10[0]);
  }
  Array<float, 1, 1> T11;
  T11[0] = 0.000000000e+00f;
  warp::warpReduceTIDX<false, true>(T11[0], T9[0], [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), true, float(0.000000000e+00f), DefaultBlockDim());
  Array<float, 1, 1> T12;
  broadcast::blockBroadcast<true, false, false, true>(T12[0], T11[0], static_cast<float*>(shared_mem), true, DefaultBlockDim());
  Array<float, 1, 1> T13;
  T13[0] = rsqrtf((T12[0] / (float)i0) + 1.000000000e-05f);
  Array<__bfloat, 4, 4> T14;
  #pragma unroll
  for(nvfuser_index_t i4 = 0; i4 < 4; ++i4) {
    Array<float, 1, 1> T15;
    T15[0] = (T4[i4] - T8[0]) * T13[0];
    if (b1) {
      T14[i4] = __float2bfloat(T15[0] * __bfloat2float(T1[(4 * ((nvfuser_index_t)threadIdx.x)) + (i4 + nvfuser_zero)]) + __bfloat2float(T2[(4 * ((nvfuser_index_t)threadIdx.x)) + (i4 + nvfuser_zero)]));
    }
  }
  if (b1) {
    loadLocalToGlobal<__bfloat, /*vec_size=*/4, /*is_volatile=*/false>( &T20[(i0 * ((nvfuser_index_t)blockIdx.x)) + (4 * ((nvfuser_index_t)threadIdx.x))], &T14[0]);
  }
  if (((nvfuser_index_t)threadIdx.x) == 0) {
    *(volatile float*)&T21[((nvfuser_index_t)blockIdx.x)] = T13[0];
  }
}
