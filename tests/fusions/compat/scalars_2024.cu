// Scalar arithmetic of many kinds, 2024: integer helpers, mixed types, classification, two-dimensional warps.
__global__ void nvfuser_transpose_f0_c1_r0_g0(Tensor<double, 1, 1> T0, Tensor<int, 1, 1> T1, Tensor<int64_t, 1> T2, Tensor<bool, 1, 1> T3, double d4, int64_t i5, bool b6, Tensor<double, 1, 1> T7, Tensor<int64_t, 1, 1> T8) {
  NVFUSER_DEFINE_MAGIC_ZERO;
  alignas(16) extern __shared__ char array[];
  void* shared_mem = array;
  nvfuser_index_t i0;
  i0 = ((nvfuser_index_t)threadIdx.x) + (((nvfuser_index_t)blockDim.x) * ((nvfuser_index_t)blockIdx.x));
  if (i0 < T0.logical_size[0LL]) {
    double T9[1LL];
    T9[0LL] = pow(T0[i0], d4) + fmod(T0[i0], 3.0) + remainder(T0[i0], -2.0) + lerp(T0[i0], d4, 0.25);
    T9[0LL] = threshold(T9[0LL], 1.00000000000000000e-01, 0.0) + frac(d4) + nextafter(d4, 2.0) + rsqrt(d4);
    T9[0LL] = T9[0LL] + fmax(T0[i0], (float)d4) + fmin((float)d4, T0[i0]) + pow((float)d4, 2) + abs(T0[i0]);
    int64_t T10[1LL];
    T10[0LL] = gcd(T2[i0], i5) + pow(i5, 3) + remainder(T2[i0], i5) + fmod(T1[i0], 7) + signbit(T1[i0]) + max(T2[i0], 3) + min(T1[i0], i5);
    T10[0LL] = T10[0LL] + clamp(T2[i0], 0, 10) + ceilDiv(i5, 4) + abs(T1[i0]) + (int64_t)relu(T1[i0]) + (int64_t)rsqrt(T1[i0]);
    T9[0LL] = print(T9[0LL]) + __half2double(print(__double2half(d4)));
    bool T11[1LL];
    T11[0LL] = isnan(T0[i0]) || isinf(T0[i0]) || isfinite(T1[i0]) || isposinf(d4) || isneginf(d4) || isreal(T0[i0]);
    T3[i0] = T11[0LL] && b6;
    T7[i0] = T9[0LL] + double(__half2float(max(__half(1.f), abs(__half(-2.f)))));
    T8[i0 + nvfuser_zero] = T10[0LL] + __half2int(__double2half(d4)) + __half2index(__int2half(i5)) + __bfloat2index(__int2bfloat(i5)) + __bfloat2int(__half2bfloat(__bool2half(b6)));
  }
  NVFUSER_UPDATE_MAGIC_ZERO;
  float T12[1LL];
  T12[0LL] = 0.f;
  warp::warpReduceTIDXY<16, 4, true>(T12[0LL], (float)i0, [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), true, float(0.f));
  warp::warpReduceTIDX<true, true>(T12[0LL], (float)i0, [](float &a, float b) { a = a + b; }, static_cast<float*>(shared_mem), true, float(0.f));
  broadcast::blockBroadcast<true, true, false, true>(T12[0LL], T12[0LL], static_cast<float*>(shared_mem), true);
  if (i0 == 0) { T7[0] = (double)T12[0LL]; }
}
