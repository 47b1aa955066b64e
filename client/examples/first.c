#include <fusiond.h>
#include <stdio.h>

#define N 1000

static const char code[] = "__global__ void scale(Tensor<float, 1, 1> x, Tensor<float, 1, 1> out, float by)\n"
                           "{\n"
                           "    nvfuser_index_t i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "    if (i < x.logical_size[0])\n"
                           "        out[i] = x[i] * by;\n"
                           "}\n";

int main(void)
{
    const char *sizes[] = {"x.size[0]"}, *grid[3] = {"ceilDiv(x.size[0], 256)"}, *block[3] = {"256"};
    const int64_t size = N;
    float x[N], out[N], by = 3;
    struct fusiond_error error;
    struct fusiond_connection *daemon;
    struct fusiond_device *device;
    struct fusiond_kernel *kernel;
    struct fusiond_defined *scale;
    struct fusiond_buffer *buffer;
    struct fusiond_launched *launched;
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    for (int i = 0; i < N; i++)
        x[i] = (float)i;

    /* A device: the first GPU, or the CPU. Code, and how to launch it. */
    if (fusiond_connect(NULL, NULL, &daemon, &error) < 0 ||
        fusiond_device_open(daemon, NULL, NULL, &device, &error) < 0 ||
        fusiond_fusion_set_code(fusion, code, sizeof code - 1, false, &error) < 0 ||
        fusiond_fusion_add_entry(fusion, "scale", &error) < 0 ||
        fusiond_fusion_set_target(fusion, fusiond_device_target(device), &error) < 0 ||
        fusiond_fusion_add_param(fusion, "x", FUSIOND_TENSOR, FUSIOND_FLOAT32, 1, 1, &error) < 0 ||
        fusiond_fusion_add_param(fusion, "out", FUSIOND_OUTPUT, FUSIOND_FLOAT32, 1, 1, &error) < 0 ||
        fusiond_fusion_add_param(fusion, "by", FUSIOND_SCALAR, FUSIOND_FLOAT32, 0, 0, &error) < 0 ||
        fusiond_fusion_add_output(fusion, "out", sizes, 1, &error) < 0 ||
        fusiond_fusion_set_launch(fusion, grid, block, NULL, &error) < 0)
        return fprintf(stderr, "%s: %s\n", error.name, error.text), 1;

    /* Compiled once on the node, whoever asks; then loaded by the device. */
    if (fusiond_compile(daemon, fusion, NULL, &kernel, &error) < 0 ||
        fusiond_define(device, fusiond_kernel_key(kernel), NULL, fusion, &scale, &error) < 0)
        return fprintf(stderr, "%s: %s\n", error.name, error.text), 1;

    /* Memory of the device for x; the launch allocates out. */
    if (fusiond_buffer_allocate(device, sizeof x, false, &buffer, &error) < 0 ||
        fusiond_buffer_write(buffer, 0, x, sizeof x, NULL, &error) < 0)
        return fprintf(stderr, "%s: %s\n", error.name, error.text), 1;
    struct fusiond_device_argument arguments[] = {
        {.buffer = buffer, .sizes = &size}, {0}, {.scalar = &by, .scalar_size = sizeof by}};
    if (fusiond_device_launch(scale, arguments, 3, NULL, &launched, &error) < 0 ||
        fusiond_buffer_read(fusiond_launched_output(launched, 0).buffer, 0, out, sizeof out, NULL, &error) < 0)
        return fprintf(stderr, "%s: %s\n", error.name, error.text), 1;
    printf("%s, on %s: 3 * %g = %g\n", fusiond_kernel_outcome(kernel), fusiond_device_info(device).name,
           (double)x[N - 1], (double)out[N - 1]);

    fusiond_launched_destroy(launched);
    fusiond_buffer_free(buffer);
    fusiond_defined_destroy(scale);
    fusiond_kernel_destroy(kernel);
    fusiond_device_close(device);
    fusiond_fusion_destroy(fusion);
    fusiond_close(daemon);
    return 0;
}
