// corpus: preamble entry=vectors T=float|double N=32|64
__global__ void vectors(Tensor<$T, 1, 1> T0, Tensor<$T, 1, 1> T1, $T scale)
{
    nvfuser_index_t i = 2 * (blockIdx.x * (nvfuser_index_t)blockDim.x + threadIdx.x);
    if (i + 1 < T0.logical_size[0]) {
        Array<$T, 2, 2> T2;
        loadGlobalToLocal<$T, /*vec_size=*/2, /*is_volatile=*/false, CacheOp::Streaming>(&T2[0], &T0[i]);
#pragma unroll
        for (nvfuser_index_t k = 0; k < 2; k++)
            T2[k] = clamp(T2[k] * scale, $T(0), $T(6));
        loadLocalToGlobal<$T, /*vec_size=*/2, /*is_volatile=*/false>(&T1[i], &T2[0]);
    }
}
