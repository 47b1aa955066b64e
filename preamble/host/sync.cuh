// Barriers, fences, and what the lanes of a warp tell each other.
#ifndef FUSIOND_HOST_SYNC_CUH
#define FUSIOND_HOST_SYNC_CUH

// ---- The block.

inline void __syncthreads()
{
    fusiond_host::runtime->block_sync(0, 0);
}
inline int __syncthreads_count(int predicate)
{
    return (int)(unsigned)fusiond_host::runtime->block_vote(predicate);
}
inline int __syncthreads_or(int predicate)
{
    return (unsigned)fusiond_host::runtime->block_vote(predicate) != 0;
}
inline int __syncthreads_and(int predicate)
{
    const unsigned long long vote = fusiond_host::runtime->block_vote(predicate);
    return (unsigned)vote == (unsigned)(vote >> 32);
}
inline void __barrier_sync(unsigned barrier)
{
    fusiond_host::runtime->block_sync(barrier, 0);
}
inline void __barrier_sync_count(unsigned barrier, unsigned threads)
{
    fusiond_host::runtime->block_sync(barrier, threads);
}

// ---- Fences. The threads of a block are in one OS thread, those of others are not.

inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
// Sleepers wait for something.
inline void __nanosleep(unsigned)
{
    fusiond_host::runtime->yield();
}

// ---- The warp.

inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    fusiond_host::runtime->warp_sync(mask);
}
inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    return fusiond_host::runtime->warp_ballot(mask, predicate);
}
inline int __any_sync(unsigned mask, int predicate)
{
    return fusiond_host::runtime->warp_ballot(mask, predicate) != 0;
}
inline int __all_sync(unsigned mask, int predicate)
{
    return fusiond_host::runtime->warp_ballot(mask, !predicate) == 0;
}
// Which lanes are at this place. The place is the line of the call.
inline unsigned __activemask(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return fusiond_host::runtime->warp_converged((unsigned long long)(size_t)file * 31 + (unsigned)line);
}

namespace fusiond_host
{
template <typename T> inline T shuffle(unsigned mask, T value, unsigned source)
{
    static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = runtime->warp_shuffle(mask, bits, source);
    memcpy(&value, &bits, sizeof(T));
    return value;
}

// The lanes of the own group of `width` lanes: a power of two, at most 32.
inline unsigned first_lane(int width)
{
    return lane & ~((unsigned)width - 1);
}
inline unsigned last_lane(int width)
{
    return lane | ((unsigned)width - 1);
}

template <typename T> inline unsigned equal_lanes(unsigned mask, T value, unsigned *met)
{
    static_assert(sizeof(T) <= 8, "matches compare up to 8 bytes");
    unsigned long long bits = 0;
    unsigned long long values[32];
    memcpy(&bits, &value, sizeof(T));
    *met = runtime->warp_gather(mask, bits, values);
    unsigned equal = 0;
    for (unsigned i = 0; i < 32; ++i)
        if ((*met >> i & 1) && values[i] == bits)
            equal |= 1u << i;
    return equal;
}

template <typename T, typename Op> inline T reduce(unsigned mask, T value, Op op)
{
    unsigned long long values[32];
    const unsigned met = runtime->warp_gather(mask, (unsigned long long)value, values);
    bool first = true;
    for (unsigned i = 0; i < 32; ++i) {
        if (!(met >> i & 1))
            continue;
        value = first ? (T)values[i] : op(value, (T)values[i]);
        first = false;
    }
    return value;
}
} // namespace fusiond_host

template <typename T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    return fusiond_host::shuffle(mask, value,
                                 fusiond_host::first_lane(width) | ((unsigned)source & ((unsigned)width - 1)));
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    const unsigned lane = fusiond_host::lane;
    const bool inside = lane >= fusiond_host::first_lane(width) + delta;
    return fusiond_host::shuffle(mask, value, inside ? lane - delta : lane);
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    const unsigned lane = fusiond_host::lane;
    const bool inside = lane + delta <= fusiond_host::last_lane(width);
    return fusiond_host::shuffle(mask, value, inside ? lane + delta : lane);
}
// Reaches into earlier groups, not into later ones.
template <typename T> inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32)
{
    const unsigned lane = fusiond_host::lane;
    const unsigned other = lane ^ (unsigned)lane_mask;
    return fusiond_host::shuffle(mask, value, other <= fusiond_host::last_lane(width) ? other : lane);
}

template <typename T> inline unsigned __match_any_sync(unsigned mask, T value)
{
    unsigned met;
    return fusiond_host::equal_lanes(mask, value, &met);
}
template <typename T> inline unsigned __match_all_sync(unsigned mask, T value, int *all)
{
    unsigned met;
    const unsigned equal = fusiond_host::equal_lanes(mask, value, &met);
    *all = equal == met;
    return *all ? met : 0;
}

#define FUSIOND_HOST_REDUCE(NAME, T, RESULT)                                                                           \
    inline T NAME(unsigned mask, T value)                                                                              \
    {                                                                                                                  \
        return fusiond_host::reduce(mask, value, [](T a, T b) { return RESULT; });                                     \
    }
FUSIOND_HOST_REDUCE(__reduce_add_sync, unsigned, a + b)
FUSIOND_HOST_REDUCE(__reduce_add_sync, int, a + b)
FUSIOND_HOST_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
FUSIOND_HOST_REDUCE(__reduce_min_sync, int, a < b ? a : b)
FUSIOND_HOST_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
FUSIOND_HOST_REDUCE(__reduce_max_sync, int, a > b ? a : b)
FUSIOND_HOST_REDUCE(__reduce_and_sync, unsigned, a & b)
FUSIOND_HOST_REDUCE(__reduce_or_sync, unsigned, a | b)
FUSIOND_HOST_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef FUSIOND_HOST_REDUCE

#endif
