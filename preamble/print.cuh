// print(x): shows an expression's text and value from a kernel, for debugging.
// Any thread on its own; no barrier. The output goes to the standard output of the process that launched.
#ifndef FUSIOND_PRINT_CUH
#define FUSIOND_PRINT_CUH

#include "fusiond/bfloat.cuh"
#include "fusiond/half.cuh"

namespace fusiond
{

#define FUSIOND_PRINT(NAME, TYPE, FORMAT, SHOWN)                                                                       \
    __device__ __forceinline__ TYPE NAME(const char *name, TYPE value)                                                 \
    {                                                                                                                  \
        printf("%s = " FORMAT " @ threadIdx=(%d,%d,%d), blockIdx=(%d,%d,%d)\n", name, SHOWN, (int)threadIdx.x,         \
               (int)threadIdx.y, (int)threadIdx.z, (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z);                 \
        return value;                                                                                                  \
    }

FUSIOND_PRINT(print_impl, float, "%f", (double)value)
FUSIOND_PRINT(print_impl, double, "%f", value)
FUSIOND_PRINT(print_impl, int, "%d", value)
FUSIOND_PRINT(print_impl, int64_t, "%lld", value)
FUSIOND_PRINT(print_impl, bool, "%s", value ? "true" : "false")
FUSIOND_PRINT(print_impl, __half, "%f", (double)__half2float(value))
FUSIOND_PRINT(print_impl, __bfloat, "%f", (double)__bfloat2float(value))

#undef FUSIOND_PRINT

} // namespace fusiond

// Evaluates to the value.
#define print(...) print_impl(#__VA_ARGS__, (__VA_ARGS__))

#endif
