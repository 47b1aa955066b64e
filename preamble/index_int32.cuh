// The index type of the kernel: 32 bits. Included before every other module; index_int64 is the alternative.
#ifndef FUSIOND_INDEX_INT32_CUH
#define FUSIOND_INDEX_INT32_CUH

#ifdef FUSIOND_INDEX_INT64_CUH
#error "fusiond/index_int32.cuh: the index type is already int64"
#endif

#include "fusiond/types.cuh"

namespace fusiond
{

typedef int nvfuser_index_t;

static_assert(sizeof(nvfuser_index_t) == 4, "index width");

} // namespace fusiond

#endif
