// out[j, i] = x[i, j], float, through a 64 by 64 tile in shared memory, padded against bank conflicts.
// Blocks are numbered along one dimension, so that neither extent meets the limit of the grid's y.
__global__ void transpose(Tensor<float, 2, 2> T0, Tensor<float, 2, 2> T1)
{
    __shared__ float T2[((64 * 65) * 1)];
    nvfuser_index_t i0;
    i0 = ceilDiv(T0.logical_size[1], 64);
    nvfuser_index_t i1;
    i1 = 64 * (((nvfuser_index_t)blockIdx.x) / i0);
    nvfuser_index_t i2;
    i2 = 64 * (((nvfuser_index_t)blockIdx.x) % i0);
    nvfuser_index_t i3;
    i3 = i2 + ((nvfuser_index_t)threadIdx.x);
#pragma unroll
    for (nvfuser_index_t i4 = 0; i4 < 64; i4 += 8) {
        nvfuser_index_t i5;
        i5 = i4 + ((nvfuser_index_t)threadIdx.y);
        if (((i1 + i5) < T0.logical_size[0]) && (i3 < T0.logical_size[1])) {
            T2[(65 * i5) + ((nvfuser_index_t)threadIdx.x)] =
                T0[(T0.alloc_stride[0] * (i1 + i5)) + (T0.alloc_stride[1] * i3)];
        }
    }
    __syncthreads();
    nvfuser_index_t i6;
    i6 = i1 + ((nvfuser_index_t)threadIdx.x);
#pragma unroll
    for (nvfuser_index_t i7 = 0; i7 < 64; i7 += 8) {
        nvfuser_index_t i8;
        i8 = i7 + ((nvfuser_index_t)threadIdx.y);
        if (((i2 + i8) < T0.logical_size[1]) && (i6 < T0.logical_size[0])) {
            T1[(T1.alloc_stride[0] * (i2 + i8)) + (T1.alloc_stride[1] * i6)] =
                T2[(65 * ((nvfuser_index_t)threadIdx.x)) + i8];
        }
    }
}
