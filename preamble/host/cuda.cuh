// CUDA for the system's C++ compiler: what a kernel finds without any #include. Stands in front of every program for
// the host device; abi.h says what stands behind it. No header of the machine is used: the compiler runs with
// -nostdinc, as NVRTC has none either.
// One OS thread runs a block, its threads as fibers, so shared memory is thread-local storage.
#ifndef FUSIOND_HOST_CUDA_CUH
#define FUSIOND_HOST_CUDA_CUH

#define FUSIOND_HOST 1
// A program that asks is being compiled at run time, as device code of no GPU architecture.
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1

#include "fusiond/host/abi.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
// Serves `__shared__ float s[32]`, static or not, and `extern __shared__ char s[]`.
#define __shared__ thread_local
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((__always_inline__))
#define __inline_hint__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __builtin_assume(...) ((void)0)
#define NULL __null

typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
typedef long clock_t;

extern "C" {
void *memcpy(void *to, const void *from, size_t size) noexcept;
void *memmove(void *to, const void *from, size_t size) noexcept;
void *memset(void *to, int byte, size_t size) noexcept;
int memcmp(const void *a, const void *b, size_t size) noexcept;
void *malloc(size_t size) noexcept;
void free(void *block) noexcept;
}

#include "fusiond/host/vectors.cuh"

// ---- The built-in variables, and the runtime.

namespace fusiond_host
{
static thread_local uint3 thread_index, block_index;
static thread_local dim3 block_extents, grid_extents;
static thread_local unsigned lane;
static const fusiond_host_runtime *runtime;

inline void attach(const fusiond_host_runtime *table)
{
    runtime = table;
}

inline void here(fusiond_host_here *ret)
{
    ret->thread = &thread_index.x;
    ret->block = &block_index.x;
    ret->block_dim = &block_extents.x;
    ret->grid_dim = &grid_extents.x;
    ret->lane = &lane;
}
} // namespace fusiond_host

#define threadIdx (static_cast<const uint3 &>(fusiond_host::thread_index))
#define blockIdx (static_cast<const uint3 &>(fusiond_host::block_index))
#define blockDim (static_cast<const dim3 &>(fusiond_host::block_extents))
#define gridDim (static_cast<const dim3 &>(fusiond_host::grid_extents))
constexpr int warpSize = 32;

#include "fusiond/host/numbers.cuh"

#include "fusiond/host/half.cuh"
#include "fusiond/host/math.cuh"

#include "fusiond/host/sync.cuh"

#include "fusiond/host/atomics.cuh"

#include "fusiond/host/entry.cuh"

// ---- Odds and ends.

// Loads and stores with cache hints are loads and stores.
template <typename T> inline T __ldg(const T *from)
{
    return *from;
}
#define FUSIOND_HOST_LOAD(NAME)                                                                                        \
    template <typename T> inline T NAME(const T *from)                                                                 \
    {                                                                                                                  \
        return *from;                                                                                                  \
    }
#define FUSIOND_HOST_STORE(NAME)                                                                                       \
    template <typename T> inline void NAME(T *to, T value)                                                             \
    {                                                                                                                  \
        *to = value;                                                                                                   \
    }
FUSIOND_HOST_LOAD(__ldca)
FUSIOND_HOST_LOAD(__ldcg)
FUSIOND_HOST_LOAD(__ldcs)
FUSIOND_HOST_LOAD(__ldlu)
FUSIOND_HOST_LOAD(__ldcv)
FUSIOND_HOST_STORE(__stwb)
FUSIOND_HOST_STORE(__stcg)
FUSIOND_HOST_STORE(__stcs)
FUSIOND_HOST_STORE(__stwt)
#undef FUSIOND_HOST_LOAD
#undef FUSIOND_HOST_STORE

inline long long clock64()
{
    return (long long)fusiond_host::runtime->clock();
}
inline clock_t clock()
{
    return (clock_t)fusiond_host::runtime->clock();
}

__attribute__((format(printf, 1, 2))) inline int printf(const char *format, ...)
{
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    const int written = fusiond_host::runtime->print(format, arguments);
    __builtin_va_end(arguments);
    return written;
}

__attribute__((noreturn)) inline void __trap()
{
    fusiond_host::runtime->trap("__trap() was called");
}
inline void __brkpt()
{
}

#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define FUSIOND_HOST_STRING(...) #__VA_ARGS__
#define FUSIOND_HOST_NUMBER(number) FUSIOND_HOST_STRING(number)
#define assert(...)                                                                                                    \
    ((__VA_ARGS__) ? (void)0                                                                                           \
                   : fusiond_host::runtime->trap(__FILE__ ":" FUSIOND_HOST_NUMBER(__LINE__) \
                                                 ": assertion `" #__VA_ARGS__ "` failed"))
#endif

// Inline PTX has no meaning here. Preamble modules have an alternative under FUSIOND_HOST; code of a fusion can have.
// The statement stays behind the error, so that there is no other one.
#define asm _Pragma("GCC error \"inline PTX (asm) cannot run on the host device; see FUSIOND_HOST\"") __asm
#define __asm__ asm

#endif
