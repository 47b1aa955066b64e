// Softmax of rows, 2022: two predicates, block broadcast, vector loads without a cache hint, warp reduction.
__global__ void kernel2(Tensor<__half, 2> T0, Tensor<__half, 2> T9) {
  int64_t i120;
  i120 = T0.size[1];
  NVFUSER_DEFINE_MAGIC_ZERO
  alignas(16) extern __shared__ char array[];
  void* shared_mem = array;
  constexpr nvfuser_index_t i13 = 0;
  __half T10[4];
  #pragma unroll
  for(nvfuser_index_t i30 = 0; i30 < 4; ++i30) { T10[i30] = 0; }
  const bool b6 = ((((nvfuser_index_t)threadIdx.x) * 4) + 3) < i120;
  if (b6) {
    loadGlobalToLocal<__half, 4, false>(&T10[i13], &T0[(((nvfuser_index_t)blockIdx.x) * T0.stride[0]) + ((((nvfuser_index_t)threadIdx.x) * 4) + nvfuser_zero)]);
  }
  float T1[4];
  #pragma unroll
  for(nvfuser_index_t i32 = 0; i32 < 4; ++i32) {
    T1[i32] = __half2float(T10[i32]);
  }
  NVFUSER_UPDATE_MAGIC_ZERO
  float T2[1];
  T2[0] = NEG_INFINITY;
  #pragma unroll
  for(nvfuser_index_t i34 = 0; i34 < 4; ++i34) { if (b6) { T2[0] = fmax(T2[0], T1[i34]); } }
  float T3[1];
  T3[0] = NEG_INFINITY;
  blockReduce<true, false, false>(T3[0], T2[0], [](float &a, float b) { a = fmax(a, b); }, threadIdx, blockDim, static_cast<float*>(shared_mem), true, true, float(NEG_INFINITY));
  float T4[1];
  broadcast::blockBroadcast<true, false, false>(T4[0], T3[0], static_cast<float*>(shared_mem), true);
  float T5[1];
  T5[0] = 0.00000000000000000e+00;
  float T6[4];
  #pragma unroll
  for(nvfuser_index_t i36 = 0; i36 < 4; ++i36) {
    T6[i36] = b6 ? expf(T1[i36] - T4[0]) : float(0);
    T5[0] = T5[0] + T6[i36];
  }
  float T7[1];
  T7[0] = 0.00000000000000000e+00;
  warp::warpReduceTIDX<false>(T7[0], T5[0], [](float &a, float b) { a = a + b; }, threadIdx, blockDim, static_cast<float*>(shared_mem), true, float(0.00000000000000000e+00));
  float T8[1];
  broadcast::blockBroadcast<true, false, false>(T8[0], T7[0], static_cast<float*>(shared_mem), true);
  __half T11[4];
  #pragma unroll
  for(nvfuser_index_t i38 = 0; i38 < 4; ++i38) {
    T11[i38] = __float2half(T6[i38] * reciprocal(T8[0]));
  }
  if (b6) {
    loadLocalToGlobal<__half, 4, false>(&T9[(((nvfuser_index_t)blockIdx.x) * i120) + (((nvfuser_index_t)threadIdx.x) * 4)], &T11[0]);
  }
}
