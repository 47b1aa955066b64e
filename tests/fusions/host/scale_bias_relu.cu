// out = relu(x * scale + bias), 2021 spelling: two-argument tensors, size and stride, size_t loops, plain arrays.
__global__ void kernel4(Tensor<float, 2> T0, Tensor<float, 1> T1, double d2, Tensor<float, 2> T3)
{
    DEFINE_MAGIC_ZERO
    size_t i0;
    i0 = (blockIdx.x * blockDim.x) + threadIdx.x;
    for (size_t i1 = 0; i1 < 2; ++i1) {
        const size_t i2 = (i0 * 2) + (i1 + nvfuser_zero);
        if (i2 < (size_t)(T0.size[0] * T0.size[1])) {
            float T4[1];
            T4[0] = T0[((i2 / T0.size[1]) * T0.stride[0]) + ((i2 % T0.size[1]) * T0.stride[1])] * (float)d2;
            T3[i2] = relu(T4[0] + T1[(i2 % T0.size[1]) * T1.stride[0]]);
        }
    }
    UPDATE_MAGIC_ZERO
}
