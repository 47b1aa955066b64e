// The move of a vector between any two of registers, shared and global memory, in one access.
// Any thread on its own; no barrier, no shared memory of its own. It returns void, so that kernels can write
// `predicate ? loadGeneric<…>(…) : arraySet<…>(…)`. Bits are moved as they are, NaN payloads included.
#ifndef FUSIOND_VECTOR_MOVE_CUH
#define FUSIOND_VECTOR_MOVE_CUH

namespace fusiond
{

namespace vector_move_impl
{

// The carrier of one access of so many bytes.
template <int bytes> struct Carrier {
    static constexpr bool valid = false;
};
template <> struct Carrier<1> {
    static constexpr bool valid = true;
    typedef unsigned char type;
};
template <> struct Carrier<2> {
    static constexpr bool valid = true;
    typedef unsigned short type;
};
template <> struct Carrier<4> {
    static constexpr bool valid = true;
    typedef unsigned type;
};
template <> struct Carrier<8> {
    static constexpr bool valid = true;
    typedef unsigned long long type;
};
template <> struct Carrier<12> {
    static constexpr bool valid = true;
    typedef uint3 type;
};
template <> struct Carrier<16> {
    static constexpr bool valid = true;
    typedef uint4 type;
};
struct alignas(32) Wide {
    uint4 half[2];
};
template <> struct Carrier<32> {
    static constexpr bool valid = true;
    typedef Wide type;
};

template <int bytes> using Carried = typename Carrier<bytes>::type;

template <typename T, int vec> constexpr bool movable = vec > 0 && Carrier<(int)sizeof(T) * vec>::valid;

} // namespace vector_move_impl

// Move vec elements between any two of register, shared and global memory, in one access of 1, 2, 4, 8, 12, 16 or
// 32 bytes. Both pointers are aligned to the access (12: to 4 bytes).
template <typename T, int vec> __device__ __forceinline__ void loadGeneric(T *to, T *from)
{
    static_assert(vector_move_impl::movable<T, vec>, "loadGeneric moves 1, 2, 4, 8, 12, 16 or 32 bytes");
    typedef vector_move_impl::Carried<sizeof(T) * vec> C;
    *reinterpret_cast<C *>(to) = *reinterpret_cast<const C *>(from);
}

} // namespace fusiond

#endif
