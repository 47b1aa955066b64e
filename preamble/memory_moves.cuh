// The moves of vectors between registers and global memory: volatile, or with a hint to the caches.
// All functions: any thread on its own; no barrier, no shared memory of their own. They return void, so that kernels
// can write `predicate ? loadGlobalToLocal<…>(…) : arraySet<…>(…)`. Bits are moved as they are, NaN payloads included.
#ifndef FUSIOND_MEMORY_MOVES_CUH
#define FUSIOND_MEMORY_MOVES_CUH

#include "fusiond/type_traits.cuh"
#include "fusiond/vector_move.cuh"

namespace fusiond
{

// How a load that is not volatile uses the caches: all levels, marked as first to be evicted, or L2 only.
enum class CacheOp { AllLevels, Streaming, Global };

namespace memory_moves_impl
{

// Volatile accesses of one carrier. The scalar ones leave the addressing to the compiler.
template <typename C> __device__ __forceinline__ C load_volatile(const volatile void *from)
{
    C value;
    if constexpr (sizeof(C) <= 8) {
        value = *(const volatile C *)from;
    } else if constexpr (sizeof(C) == 12) {
        value.x = ((const volatile unsigned *)from)[0];
        value.y = ((const volatile unsigned *)from)[1];
        value.z = ((const volatile unsigned *)from)[2];
    } else if constexpr (sizeof(C) == 16) {
#ifdef FUSIOND_HOST
        value.x = ((const volatile unsigned *)from)[0];
        value.y = ((const volatile unsigned *)from)[1];
        value.z = ((const volatile unsigned *)from)[2];
        value.w = ((const volatile unsigned *)from)[3];
#else
        asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                     : "l"(from)
                     : "memory");
#endif
    } else {
        value.half[0] = load_volatile<uint4>(from);
        value.half[1] = load_volatile<uint4>((const volatile uint4 *)from + 1);
    }
    return value;
}

template <typename C> __device__ __forceinline__ void store_volatile(volatile void *to, const C &value)
{
    if constexpr (sizeof(C) <= 8) {
        *(volatile C *)to = value;
    } else if constexpr (sizeof(C) == 12) {
        ((volatile unsigned *)to)[0] = value.x;
        ((volatile unsigned *)to)[1] = value.y;
        ((volatile unsigned *)to)[2] = value.z;
    } else if constexpr (sizeof(C) == 16) {
#ifdef FUSIOND_HOST
        ((volatile unsigned *)to)[0] = value.x;
        ((volatile unsigned *)to)[1] = value.y;
        ((volatile unsigned *)to)[2] = value.z;
        ((volatile unsigned *)to)[3] = value.w;
#else
        asm volatile("st.volatile.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x), "r"(value.y), "r"(value.z),
                     "r"(value.w)
                     : "memory");
#endif
    } else {
        store_volatile(to, value.half[0]);
        store_volatile((volatile uint4 *)to + 1, value.half[1]);
    }
}

// Loads with a hint. 8, 16 and 32 bytes take it; narrower ones are plain.
template <CacheOp op, typename C> __device__ __forceinline__ C load_hinted(const C *from)
{
    if constexpr (sizeof(C) == 32) {
        C value;
        value.half[0] = load_hinted<op>(&from->half[0]);
        value.half[1] = load_hinted<op>(&from->half[1]);
        return value;
    } else if constexpr (sizeof(C) < 8 || sizeof(C) == 12) {
        return *from;
    } else if constexpr (op == CacheOp::AllLevels) {
        return __ldca(from);
    } else if constexpr (op == CacheOp::Global) {
        return __ldcg(from);
    } else {
        return __ldcs(from);
    }
}

template <typename C> __device__ __forceinline__ void store_streaming(C *to, const C &value)
{
    if constexpr (sizeof(C) == 32) {
        store_streaming(&to->half[0], value.half[0]);
        store_streaming(&to->half[1], value.half[1]);
    } else if constexpr (sizeof(C) < 8 || sizeof(C) == 12) {
        *to = value;
    } else {
        __stcs(to, value);
    }
}

} // namespace memory_moves_impl

// As loadGeneric, with volatile accesses on the sides that ask for it.
template <typename T, int vec, bool volatile_to, bool volatile_from>
__device__ __forceinline__ void loadGenericVolatile(typename MaybeVolatile<T, volatile_to>::type *to,
                                                    typename MaybeVolatile<T, volatile_from>::type *from)
{
    static_assert(vector_move_impl::movable<T, vec>, "loadGenericVolatile moves 1, 2, 4, 8, 12, 16 or 32 bytes");
    typedef vector_move_impl::Carried<sizeof(T) * vec> C;
    C value;
    if constexpr (volatile_from)
        value = memory_moves_impl::load_volatile<C>(from);
    else
        value = *reinterpret_cast<const C *>(from);
    if constexpr (volatile_to)
        memory_moves_impl::store_volatile<C>(to, value);
    else
        *reinterpret_cast<C *>(to) = value;
}

// Registers to global memory. Without is_volatile, 8 bytes and more are marked as streamed.
template <typename T, int vec, bool is_volatile>
__device__ __forceinline__ void loadLocalToGlobal(typename MaybeVolatile<T, is_volatile>::type *to, T *from)
{
    static_assert(vector_move_impl::movable<T, vec>, "loadLocalToGlobal moves 1, 2, 4, 8, 12, 16 or 32 bytes");
    typedef vector_move_impl::Carried<sizeof(T) * vec> C;
    const C value = *reinterpret_cast<const C *>(from);
    if constexpr (is_volatile)
        memory_moves_impl::store_volatile<C>(to, value);
    else
        memory_moves_impl::store_streaming(reinterpret_cast<C *>(to), value);
}

// Global memory to registers. `cache` counts for accesses of 8 bytes and more that are not volatile.
template <typename T, int vec, bool is_volatile, CacheOp cache = CacheOp::Streaming>
__device__ __forceinline__ void loadGlobalToLocal(T *to, typename MaybeVolatile<T, is_volatile>::type *from)
{
    static_assert(vector_move_impl::movable<T, vec>, "loadGlobalToLocal moves 1, 2, 4, 8, 12, 16 or 32 bytes");
    typedef vector_move_impl::Carried<sizeof(T) * vec> C;
    if constexpr (is_volatile)
        *reinterpret_cast<C *>(to) = memory_moves_impl::load_volatile<C>(from);
    else
        *reinterpret_cast<C *>(to) = memory_moves_impl::load_hinted<cache>(reinterpret_cast<const C *>(from));
}

// Global to global memory, through registers.
template <typename T, int vec, bool volatile_to, bool volatile_from>
__device__ __forceinline__ void loadGlobalToGlobal(typename MaybeVolatile<T, volatile_to>::type *to,
                                                   typename MaybeVolatile<T, volatile_from>::type *from)
{
    static_assert(vector_move_impl::movable<T, vec>, "loadGlobalToGlobal moves 1, 2, 4, 8, 12, 16 or 32 bytes");
    typedef vector_move_impl::Carried<sizeof(T) * vec> C;
    C value;
    if constexpr (volatile_from)
        value = memory_moves_impl::load_volatile<C>(from);
    else
        value = memory_moves_impl::load_hinted<CacheOp::Streaming>(reinterpret_cast<const C *>(from));
    if constexpr (volatile_to)
        memory_moves_impl::store_volatile<C>(to, value);
    else
        memory_moves_impl::store_streaming(reinterpret_cast<C *>(to), value);
}

} // namespace fusiond

#endif
