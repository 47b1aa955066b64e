// out = gelu(x + bias) + residual, bfloat16 in and out, float inside; gelu by its tanh form.
// One thread handles 8 neighbours in row-major order. They load and store as one 16-byte vector; a bias vector is
// loaded at once only if rows hold whole vectors, and the last vector of the tensor may be a ragged one.
__global__ void bias_gelu_residual(Tensor<__bfloat, 2, 2> T0, Tensor<__bfloat, 1, 1> T1, Tensor<__bfloat, 2, 2> T2,
                                   Tensor<__bfloat, 2, 2> T3)
{
    nvfuser_index_t i0;
    i0 = T0.logical_size[1];
    nvfuser_index_t i1;
    i1 = T0.logical_size[0] * i0;
    nvfuser_index_t i2;
    i2 = (1024 * ((nvfuser_index_t)blockIdx.x)) + (8 * ((nvfuser_index_t)threadIdx.x));
    bool b3;
    b3 = (i2 + 8) <= i1;
    bool b4;
    b4 = (i0 % 8) == 0;
    if (i2 < i1) {
        Array<__bfloat, 8, 8> T4;
        T4.set(__bfloat(0));
        Array<__bfloat, 8, 8> T5;
        T5.set(__bfloat(0));
        Array<__bfloat, 8, 8> T6;
        T6.set(__bfloat(0));
        if (b3) {
            loadGlobalToLocal<__bfloat, /*vec_size=*/8, /*is_volatile=*/false, CacheOp::Streaming>(&T4[0], &T0[i2]);
            loadGlobalToLocal<__bfloat, /*vec_size=*/8, /*is_volatile=*/false, CacheOp::Streaming>(&T6[0], &T2[i2]);
        } else {
#pragma unroll
            for (nvfuser_index_t i5 = 0; i5 < 8; ++i5) {
                if ((i2 + i5) < i1) {
                    T4[i5] = T0[i2 + i5];
                    T6[i5] = T2[i2 + i5];
                }
            }
        }
        nvfuser_index_t i6;
        i6 = i2 % i0;
        if (b4) {
            loadGlobalToLocal<__bfloat, /*vec_size=*/8, /*is_volatile=*/false, CacheOp::AllLevels>(&T5[0], &T1[i6]);
        } else {
#pragma unroll
            for (nvfuser_index_t i7 = 0; i7 < 8; ++i7) {
                if ((i2 + i7) < i1) {
                    T5[i7] = T1[(i2 + i7) % i0];
                }
            }
        }
        Array<__bfloat, 8, 8> T7;
#pragma unroll
        for (nvfuser_index_t i8 = 0; i8 < 8; ++i8) {
            Array<float, 1, 1> T8;
            T8[0] = __bfloat2float(T4[i8]) + __bfloat2float(T5[i8]);
            Array<float, 1, 1> T9;
            T9[0] = T8[0] * T8[0];
            Array<float, 1, 1> T10;
            T10[0] = T9[0] * T8[0];
            Array<float, 1, 1> T11;
            T11[0] = T8[0] + (4.471499845e-02f * T10[0]);
            Array<float, 1, 1> T12;
            T12[0] = tanhf(7.978845835e-01f * T11[0]);
            Array<float, 1, 1> T13;
            T13[0] = (5.000000000e-01f * T8[0]) * (1.000000000e+00f + T12[0]);
            Array<float, 1, 1> T14;
            T14[0] = T13[0] + __bfloat2float(T6[i8]);
            T7[i8] = __float2bfloat(T14[0]);
        }
        if (b3) {
            loadLocalToGlobal<__bfloat, /*vec_size=*/8, /*is_volatile=*/false>(&T3[i2], &T7[0]);
        } else {
#pragma unroll
            for (nvfuser_index_t i9 = 0; i9 < 8; ++i9) {
                if ((i2 + i9) < i1) {
                    T3[i2 + i9] = T7[i9];
                }
            }
        }
    }
}
