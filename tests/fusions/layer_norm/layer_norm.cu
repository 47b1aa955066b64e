// out[i, :] = (x[i, :] - mean[i]) * rstd[i] * weight + bias, half in and out, float inside; mean and rstd are outputs.
// One block per row; the row stays in dynamic shared memory as float, behind the workspace of the block reductions,
// so that the variance is taken around the true mean.
__global__ void layer_norm(Tensor<__half, 2, 2> T0, Tensor<__half, 1, 1> T1, Tensor<__half, 1, 1> T2, double d3,
                           Tensor<__half, 2, 2> T4, Tensor<float, 1, 1> T5, Tensor<float, 1, 1> T6)
{
    alignas(16) extern __shared__ char array[];
    void *shared_mem = array;
    const unsigned smem_offset = alignBufferSize(((nvfuser_index_t)blockDim.x) * sizeof(float), 16);
    float *T7 = reinterpret_cast<float *>(array + smem_offset);
    float *T8 = static_cast<float *>(shared_mem);
    __shared__ float T9[2];
    nvfuser_index_t i0;
    i0 = T0.logical_size[1];
    nvfuser_index_t i1;
    i1 = i0 * ((nvfuser_index_t)blockIdx.x);
    bool b2;
    b2 = (i0 % 8) == 0;
    Array<float, 1, 1> T10;
    T10[0] = 0.000000000e+00f;
    if (b2) {
        for (nvfuser_index_t i3 = 8 * ((nvfuser_index_t)threadIdx.x); i3 < i0;
             i3 += 8 * ((nvfuser_index_t)blockDim.x)) {
            Array<__half, 8, 8> T11;
            loadGlobalToLocal<__half, /*vec_size=*/8, /*is_volatile=*/false, CacheOp::Streaming>(&T11[0], &T0[i1 + i3]);
            Array<float, 8, 4> T12;
#pragma unroll
            for (nvfuser_index_t i4 = 0; i4 < 8; ++i4) {
                T12[i4] = __half2float(T11[i4]);
                T10[0] = T10[0] + T12[i4];
            }
            loadGeneric<float, 4>(&T7[i3], &T12[0]);
            loadGeneric<float, 4>(&T7[i3 + 4], &T12[4]);
        }
    } else {
        for (nvfuser_index_t i5 = ((nvfuser_index_t)threadIdx.x); i5 < i0; i5 += ((nvfuser_index_t)blockDim.x)) {
            T7[i5] = __half2float(T0[i1 + i5]);
            T10[0] = T10[0] + T7[i5];
        }
    }
    Array<float, 1, 1> T13;
    T13[0] = 0.000000000e+00f;
    blockReduce<true, false, false, true>(
        T13[0], T10[0], [](float &a, float b) { a = a + b; }, T8, true, true, float(0.000000000e+00f),
        DefaultBlockDim());
    if (((nvfuser_index_t)threadIdx.x) == 0) {
        T9[0] = T13[0] * reciprocal((float)i0);
    }
    __syncthreads();
    Array<float, 1, 1> T14;
    T14[0] = 0.000000000e+00f;
    for (nvfuser_index_t i6 = ((nvfuser_index_t)threadIdx.x); i6 < i0; i6 += ((nvfuser_index_t)blockDim.x)) {
        Array<float, 1, 1> T15;
        T15[0] = T7[i6] - T9[0];
        T14[0] = T14[0] + (T15[0] * T15[0]);
    }
    Array<float, 1, 1> T16;
    T16[0] = 0.000000000e+00f;
    blockReduce<true, false, false, true>(
        T16[0], T14[0], [](float &a, float b) { a = a + b; }, T8, true, true, float(0.000000000e+00f),
        DefaultBlockDim());
    if (((nvfuser_index_t)threadIdx.x) == 0) {
        Array<float, 1, 1> T17;
        T17[0] = rsqrtf((T16[0] * reciprocal((float)i0)) + (float)d3);
        T9[1] = T17[0];
        T5[((nvfuser_index_t)blockIdx.x)] = T9[0];
        T6[((nvfuser_index_t)blockIdx.x)] = T17[0];
    }
    __syncthreads();
    if (b2) {
        for (nvfuser_index_t i7 = 8 * ((nvfuser_index_t)threadIdx.x); i7 < i0;
             i7 += 8 * ((nvfuser_index_t)blockDim.x)) {
            Array<__half, 8, 8> T18;
            loadGlobalToLocal<__half, /*vec_size=*/8, /*is_volatile=*/false, CacheOp::AllLevels>(&T18[0], &T1[i7]);
            Array<__half, 8, 8> T19;
            loadGlobalToLocal<__half, /*vec_size=*/8, /*is_volatile=*/false, CacheOp::AllLevels>(&T19[0], &T2[i7]);
            Array<float, 8, 4> T20;
            loadGeneric<float, 4>(&T20[0], &T7[i7]);
            loadGeneric<float, 4>(&T20[4], &T7[i7 + 4]);
            Array<__half, 8, 8> T21;
#pragma unroll
            for (nvfuser_index_t i8 = 0; i8 < 8; ++i8) {
                Array<float, 1, 1> T22;
                T22[0] = (T20[i8] - T9[0]) * T9[1];
                T21[i8] = __float2half((T22[0] * __half2float(T18[i8])) + __half2float(T19[i8]));
            }
            loadLocalToGlobal<__half, /*vec_size=*/8, /*is_volatile=*/false>(&T4[i1 + i7], &T21[0]);
        }
    } else {
        for (nvfuser_index_t i9 = ((nvfuser_index_t)threadIdx.x); i9 < i0; i9 += ((nvfuser_index_t)blockDim.x)) {
            Array<float, 1, 1> T23;
            T23[0] = (T7[i9] - T9[0]) * T9[1];
            T4[i1 + i9] = __float2half((T23[0] * __half2float(T1[i9])) + __half2float(T2[i9]));
        }
    }
}
