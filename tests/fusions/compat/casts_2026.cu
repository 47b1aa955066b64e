// Pointwise, 2026: cast functions, vector casts, 256-bit accesses, max on reals, scalars by value.
// Codegen generated code
__device__ __inline__ void fenceAsyncProxy() {
  asm volatile("" ::: "memory");
}
__global__ void nvfuser_pointwise_f1_c1_r0_g0(Tensor<__half, 1, 1> T0, CpuScalarTensor<float> T1, double d2, nvfuser_index_t i3, Tensor<float, 1, 1> T4, Tensor<__bfloat, 1, 1> T5, Tensor<float, 0, 0> T6) {
  NVFUSER_DEFINE_MAGIC_ZERO;
  nvfuser_index_t i4;
  i4 = (8 * ((nvfuser_index_t)threadIdx.x)) + ((8 * ((nvfuser_index_t)blockDim.x)) * ((nvfuser_index_t)blockIdx.x));
  bool b5;
  b5 = (i4 + 7) < (nvfuser_index_t)i3;
  Array<__half, 8, 8> T7;
  if (b5) {
    loadGlobalToLocal<__half, /*vec_size=*/8, /*is_volatile=*/false, CacheOp::Streaming>(&T7[0],  &T0[(i4 + nvfuser_zero)]);
  }
  Array<float, 8, 8> T8;
  *reinterpret_cast<Array<float, 8, 8>*>(&T8[0]) = __half2float(*reinterpret_cast<Array<__half, 8, 8>*>(&T7[0]));
  Array<float, 1LL, 1> T9;
  T9[0] = __to_float(d2) + T1[0] + __to_float(__to_int32(((nvfuser_index_t)threadIdx.x) / 2));
  #pragma unroll
  for(nvfuser_index_t i6 = 0; i6 < 8; ++i6) {
    T8[i6] = max(T8[i6] * T9[0], 0.000000000e+00f);
    T8[i6] = (__to_bool(__to_uint32(i6) % 2U)) ? silu(T8[i6]) : sigmoid(T8[i6]);
    T8[i6] = isfinite(T8[i6]) ? T8[i6] : (float) NAN;
  }
  NVFUSER_UPDATE_MAGIC_ZERO;
  Array<__bfloat, 8, 8> T10;
  *reinterpret_cast<Array<__bfloat, 8, 8>*>(&T10[0]) = __float2bfloat(*reinterpret_cast<Array<float, 8, 8>*>(&T8[0]));
  Array<int64_t, 8, 8> T11;
  *reinterpret_cast<Array<int64_t, 8, 8>*>(&T11[0]) = __to_int64(*reinterpret_cast<Array<float, 8, 8>*>(&T8[0]));
  fenceAsyncProxy();
  if (b5) {
    loadLocalToGlobal<float, /*vec_size=*/8, /*is_volatile=*/false>( &T4[i4], &T8[0]);
    loadLocalToGlobal<__bfloat, /*vec_size=*/8, /*is_volatile=*/false>( &T5[i4], &T10[0]);
  }
  if (i4 == 0) {
    T6[0] = __to_float(T11[0]) + __half2float(__bfloat2half(T10[1])) + std::bit_cast<float>(__to_int32(bit_ceil(5U)));
  }
}
