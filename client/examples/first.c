#include <fusiond.h>
#include <stdio.h>

int main(void)
{
    const char code[] = "__global__ void scale(float *x, float by) { x[blockIdx.x * blockDim.x + threadIdx.x] *= by; }";
    struct fusiond_fusion *fusion = fusiond_fusion_create();
    struct fusiond_connection *daemon;
    struct fusiond_kernel *kernel;
    struct fusiond_error error;
    if (fusiond_fusion_set_code(fusion, code, sizeof code - 1, true, &error) < 0 ||
        fusiond_fusion_add_entry(fusion, "scale", &error) < 0 ||
        fusiond_fusion_set_target(fusion, "sm_90a", &error) < 0 ||
        fusiond_fusion_set_option(fusion, "side_effects_only", "true", &error) < 0 ||
        fusiond_connect(NULL, NULL, &daemon, &error) < 0 || fusiond_compile(daemon, fusion, NULL, &kernel, &error) < 0)
        return fprintf(stderr, "%s: %s\n", error.name, error.text), 1;
    size_t size;
    const void *cubin = fusiond_kernel_image(kernel, &size); /* what cuModuleLoadData takes */
    printf("%s: %s, %zu bytes at %p\n", fusiond_kernel_outcome(kernel), fusiond_kernel_entry(kernel, 0).lowered, size,
           cubin);
    fusiond_kernel_destroy(kernel);
    fusiond_close(daemon);
    fusiond_fusion_destroy(fusion);
    return 0;
}
