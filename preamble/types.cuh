// Fixed-width integers and the TMA descriptor, as seen from a kernel.
#ifndef FUSIOND_TYPES_CUH
#define FUSIOND_TYPES_CUH

namespace fusiond
{

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
// long long on purpose: atomicAdd and the overloads of kernels in circulation expect it.
typedef long long int int64_t;
typedef unsigned long long int uint64_t;

// The driver's CUtensorMap, byte for byte. Kernels only take its address.
struct alignas(64) TensorMap {
    uint64_t opaque[16];
};

static_assert(sizeof(int64_t) == 8 && sizeof(int32_t) == 4 && sizeof(int16_t) == 2, "integer widths");
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64, "a tensor map is 128 bytes, 64-aligned");

} // namespace fusiond

#endif
