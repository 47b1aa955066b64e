// The magic zero: an int that is 0 in every run, which no stage of the compiler can know. Indices that contain it
// are not computed ahead of unrolled loops, which saves registers. DEFINE: once per kernel, any thread; no barrier and
// no shared memory. UPDATE: a statement at the end of a loop's body or after it. Both work with and without a
// semicolon. Where FUSIOND_NO_MAGIC_ZERO is defined it is a plain 0.
#ifndef FUSIOND_MAGIC_ZERO_CUH
#define FUSIOND_MAGIC_ZERO_CUH

#ifdef FUSIOND_NO_MAGIC_ZERO
#define NVFUSER_DEFINE_MAGIC_ZERO constexpr int nvfuser_zero = 0;
#define NVFUSER_UPDATE_MAGIC_ZERO
#elif defined(__CUDA_ARCH__)
// The sign of the size of the block's dynamic shared memory: read at run time, and never negative.
#define NVFUSER_DEFINE_MAGIC_ZERO                                                                                      \
    int nvfuser_zero;                                                                                                  \
    asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(nvfuser_zero));                                             \
    nvfuser_zero = (int)((unsigned)nvfuser_zero >> 31);
#define NVFUSER_UPDATE_MAGIC_ZERO nvfuser_zero += nvfuser_zero;
#else
#define NVFUSER_DEFINE_MAGIC_ZERO int nvfuser_zero = 0;
#define NVFUSER_UPDATE_MAGIC_ZERO nvfuser_zero += nvfuser_zero;
#endif

// The names of 2021.
#define DEFINE_MAGIC_ZERO NVFUSER_DEFINE_MAGIC_ZERO
#define UPDATE_MAGIC_ZERO NVFUSER_UPDATE_MAGIC_ZERO

#endif
