// std::bit_cast and bit_ceil. Any thread; no barrier, no shared memory.
#ifndef FUSIOND_BIT_CUH
#define FUSIOND_BIT_CUH

namespace fusiond
{
namespace std
{

// The same bytes as another type of the same size. NaN payloads are kept.
template <typename To, typename From> __device__ __forceinline__ To bit_cast(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "std::bit_cast: the types differ in size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

} // namespace std

// The smallest power of two that is not below x; 1 for 0. 0 when it does not fit.
__device__ __forceinline__ constexpr unsigned bit_ceil(unsigned x)
{
    unsigned power = 1;
    while (power != 0 && power < x)
        power <<= 1;
    return power;
}

__device__ __forceinline__ constexpr unsigned long long bit_ceil(unsigned long long x)
{
    unsigned long long power = 1;
    while (power != 0 && power < x)
        power <<= 1;
    return power;
}

} // namespace fusiond

#endif
