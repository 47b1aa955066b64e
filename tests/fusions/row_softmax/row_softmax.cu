// out[i, :] = softmax(x[i, :]), float. One block per row; the row is read once and kept in dynamic shared memory,
// behind the workspace of the block reductions. Rows of whole 16-byte vectors load as such, others one by one.
__global__ void row_softmax(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1)
{
    alignas(16) extern __shared__ char array[];
    void *shared_mem = array;
    const unsigned smem_offset = alignBufferSize(((nvfuser_index_t)blockDim.x) * sizeof(float), 16);
    float *T2 = reinterpret_cast<float *>(array + smem_offset);
    float *T3 = static_cast<float *>(shared_mem);
    nvfuser_index_t i0;
    i0 = T0.logical_size[1];
    nvfuser_index_t i1;
    i1 = T0.alloc_stride[0] * ((nvfuser_index_t)blockIdx.x);
    nvfuser_index_t i2;
    i2 = i0 * ((nvfuser_index_t)blockIdx.x);
    bool b3;
    b3 = ((i0 % 4) == 0) && ((T0.alloc_stride[0] % 4) == 0);
    Array<float, 1, 1> T4;
    T4[0] = __int_as_float((int)0xff800000U);
    if (b3) {
        for (nvfuser_index_t i4 = 4 * ((nvfuser_index_t)threadIdx.x); i4 < i0;
             i4 += 4 * ((nvfuser_index_t)blockDim.x)) {
            Array<float, 4, 4> T5;
            loadGlobalToLocal<float, /*vec_size=*/4, /*is_volatile=*/false, CacheOp::Streaming>(&T5[0], &T0[i1 + i4]);
            loadGeneric<float, 4>(&T2[i4], &T5[0]);
#pragma unroll
            for (nvfuser_index_t i5 = 0; i5 < 4; ++i5) {
                T4[0] = max(T4[0], T5[i5]);
            }
        }
    } else {
        for (nvfuser_index_t i6 = ((nvfuser_index_t)threadIdx.x); i6 < i0; i6 += ((nvfuser_index_t)blockDim.x)) {
            T2[i6] = T0[i1 + i6];
            T4[0] = max(T4[0], T2[i6]);
        }
    }
    // Every thread needs the row's results: thread 0 leaves them here.
    __shared__ float T6[2];
    Array<float, 1, 1> T7;
    T7[0] = __int_as_float((int)0xff800000U);
    blockReduce<true, false, false, true>(
        T7[0], T4[0], [](float &a, float b) { a = max(a, b); }, T3, true, true,
        __int_as_float((int)0xff800000U), DefaultBlockDim());
    if (((nvfuser_index_t)threadIdx.x) == 0) {
        T6[0] = T7[0];
    }
    __syncthreads();
    Array<float, 1, 1> T8;
    T8[0] = 0.000000000e+00f;
    // A thread reads what it wrote itself only in the scalar case; the barriers above cover the other.
    for (nvfuser_index_t i7 = ((nvfuser_index_t)threadIdx.x); i7 < i0; i7 += ((nvfuser_index_t)blockDim.x)) {
        Array<float, 1, 1> T9;
        T9[0] = expf(T2[i7] - T6[0]);
        T2[i7] = T9[0];
        T8[0] = T8[0] + T9[0];
    }
    Array<float, 1, 1> T10;
    T10[0] = 0.000000000e+00f;
    blockReduce<true, false, false, true>(
        T10[0], T8[0], [](float &a, float b) { a = a + b; }, T3, true, true, float(0.000000000e+00f),
        DefaultBlockDim());
    if (((nvfuser_index_t)threadIdx.x) == 0) {
        T6[1] = reciprocal(T10[0]);
    }
    __syncthreads();
    if ((i0 % 4) == 0) {
        for (nvfuser_index_t i8 = 4 * ((nvfuser_index_t)threadIdx.x); i8 < i0;
             i8 += 4 * ((nvfuser_index_t)blockDim.x)) {
            Array<float, 4, 4> T11;
            loadGeneric<float, 4>(&T11[0], &T2[i8]);
#pragma unroll
            for (nvfuser_index_t i9 = 0; i9 < 4; ++i9) {
                T11[i9] = T11[i9] * T6[1];
            }
            loadLocalToGlobal<float, /*vec_size=*/4, /*is_volatile=*/false>(&T1[i2 + i8], &T11[0]);
        }
    } else {
        for (nvfuser_index_t i10 = ((nvfuser_index_t)threadIdx.x); i10 < i0; i10 += ((nvfuser_index_t)blockDim.x)) {
            T1[i2 + i10] = T2[i10] * T6[1];
        }
    }
}
