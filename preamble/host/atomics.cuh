// Atomic functions, on shared and global memory alike. Relaxed, as CUDA's are; fences order.
#ifndef FUSIOND_HOST_ATOMICS_CUH
#define FUSIOND_HOST_ATOMICS_CUH

namespace fusiond_host
{
// A thread that works on one address over and over waits for another thread, which must get to run: there is no
// preemption.
constexpr unsigned spin_patience = 64;
static thread_local const volatile void *spin_at;
static thread_local unsigned spin_count;
inline void spun(const volatile void *at)
{
    if (at != spin_at) {
        spin_at = at;
        spin_count = 0;
    } else if (++spin_count >= spin_patience) {
        spin_count = 0;
        runtime->yield();
    }
}

template <unsigned bytes> struct Bits;
template <> struct Bits<4> {
    typedef unsigned type;
};
template <> struct Bits<8> {
    typedef unsigned long long type;
};

template <typename T> inline T compare_and_swap(T *at, T expected, T value)
{
    typedef typename Bits<sizeof(T)>::type B;
    B old = bits_as<B>(expected);
    __atomic_compare_exchange_n((B *)at, &old, bits_as<B>(value), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    spun(at);
    return bits_as<T>(old);
}

template <typename T, typename Op> inline T change(T *at, Op op)
{
    typedef typename Bits<sizeof(T)>::type B;
    B old = __atomic_load_n((B *)at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n((B *)at, &old, bits_as<B>((T)op(bits_as<T>(old))), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    spun(at);
    return bits_as<T>(old);
}
} // namespace fusiond_host

#define FUSIOND_HOST_ATOMIC(NAME, T, RESULT)                                                                           \
    inline T NAME(T *at, T value)                                                                                      \
    {                                                                                                                  \
        return fusiond_host::change(at, [value](T old) { return RESULT; });                                            \
    }                                                                                                                  \
    inline T NAME##_block(T *at, T value)                                                                              \
    {                                                                                                                  \
        return NAME(at, value);                                                                                        \
    }                                                                                                                  \
    inline T NAME##_system(T *at, T value)                                                                             \
    {                                                                                                                  \
        return NAME(at, value);                                                                                        \
    }
#define FUSIOND_HOST_ATOMIC_ANY(T)                                                                                     \
    FUSIOND_HOST_ATOMIC(atomicAdd, T, (T)(old + value))                                                                \
    FUSIOND_HOST_ATOMIC(atomicSub, T, (T)(old - value))                                                                \
    FUSIOND_HOST_ATOMIC(atomicExch, T, ((void)old, value))                                                             \
    FUSIOND_HOST_ATOMIC(atomicMax, T, old > value ? old : value)                                                       \
    FUSIOND_HOST_ATOMIC(atomicMin, T, old < value ? old : value)                                                       \
    inline T atomicCAS(T *at, T expected, T value)                                                                     \
    {                                                                                                                  \
        return fusiond_host::compare_and_swap(at, expected, value);                                                    \
    }
#define FUSIOND_HOST_ATOMIC_INTEGER(T)                                                                                 \
    FUSIOND_HOST_ATOMIC_ANY(T)                                                                                         \
    FUSIOND_HOST_ATOMIC(atomicAnd, T, (T)(old & value))                                                                \
    FUSIOND_HOST_ATOMIC(atomicOr, T, (T)(old | value))                                                                 \
    FUSIOND_HOST_ATOMIC(atomicXor, T, (T)(old ^ value))
FUSIOND_HOST_ATOMIC_INTEGER(int)
FUSIOND_HOST_ATOMIC_INTEGER(unsigned)
FUSIOND_HOST_ATOMIC_INTEGER(long)
FUSIOND_HOST_ATOMIC_INTEGER(unsigned long)
FUSIOND_HOST_ATOMIC_INTEGER(long long)
FUSIOND_HOST_ATOMIC_INTEGER(unsigned long long)
FUSIOND_HOST_ATOMIC_ANY(float)
FUSIOND_HOST_ATOMIC_ANY(double)
// Count up to `value`, then from 0; count down from `value`.
FUSIOND_HOST_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1)
FUSIOND_HOST_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef FUSIOND_HOST_ATOMIC_INTEGER
#undef FUSIOND_HOST_ATOMIC_ANY
#undef FUSIOND_HOST_ATOMIC

#endif
