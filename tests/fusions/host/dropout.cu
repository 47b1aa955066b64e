// Dropout by a counter-based hash, 2025 spelling: vectors of bfloat16, integer arithmetic, a bool output.
__global__ void nvfuser_pointwise_f2_c1_r0_g0(Tensor<__bfloat, 1, 1> T0, int64_t i1, double d2,
                                              Tensor<__bfloat, 1, 1> T3, Tensor<bool, 1, 1> T4)
{
    nvfuser_index_t i0;
    i0 = 4 * (((nvfuser_index_t)threadIdx.x) + (((nvfuser_index_t)blockDim.x) * ((nvfuser_index_t)blockIdx.x)));
    if ((i0 + 3) < T0.logical_size[0LL]) {
        Array<__bfloat, 4, 4> T5;
        loadGlobalToLocal<__bfloat, /*vec_size=*/4, /*is_volatile=*/false, CacheOp::Streaming>(&T5[0], &T0[i0]);
        Array<__bfloat, 4, 4> T6;
        Array<bool, 4, 4> T7;
#pragma unroll
        for (nvfuser_index_t i2 = 0; i2 < 4; ++i2) {
            uint32_t h;
            h = (uint32_t)(i0 + i2) * 2654435761U + (uint32_t)i1;
            h = (h ^ (h >> 15)) * 2246822519U;
            h = h ^ (h >> 13);
            T7[i2] = ((double)h * 2.328306436538696e-10) >= d2;
            T6[i2] = T7[i2] ? __float2bfloat(__bfloat2float(T5[i2]) * (float)reciprocal(1.0 - d2)) : __bfloat(0);
        }
        loadLocalToGlobal<__bfloat, /*vec_size=*/4, /*is_volatile=*/false>(&T3[i0], &T6[0]);
        loadLocalToGlobal<bool, /*vec_size=*/4, /*is_volatile=*/false>(&T4[i0], &T7[0]);
    }
}
