// The index type of the kernel: 64 bits. Included before every other module; index_int32 is the alternative.
#ifndef FUSIOND_INDEX_INT64_CUH
#define FUSIOND_INDEX_INT64_CUH

#ifdef FUSIOND_INDEX_INT32_CUH
#error "fusiond/index_int64.cuh: the index type is already int32"
#endif

#include "fusiond/types.cuh"

namespace fusiond
{

typedef int64_t nvfuser_index_t;

static_assert(sizeof(nvfuser_index_t) == 8, "index width");

} // namespace fusiond

#endif
