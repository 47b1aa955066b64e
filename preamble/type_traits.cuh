// Small type helpers of kernels that are not in the standard library.
#ifndef FUSIOND_TYPE_TRAITS_CUH
#define FUSIOND_TYPE_TRAITS_CUH

namespace fusiond
{

// volatile T when V, else T.
template <typename T, bool V> struct MaybeVolatile {
    typedef T type;
};
template <typename T> struct MaybeVolatile<T, true> {
    typedef volatile T type;
};

template <typename... Types> struct TypeList {
};

// The type at position `index` of the list.
template <int index, typename... Types> struct TypeSelector;
template <typename First, typename... Rest> struct TypeSelector<0, First, Rest...> {
    typedef First type;
};
template <int index, typename First, typename... Rest> struct TypeSelector<index, First, Rest...> {
    static_assert(index > 0 && index <= (int)sizeof...(Rest), "TypeSelector: the index is outside the list");
    typedef typename TypeSelector<index - 1, Rest...>::type type;
};

template <typename A, typename B> struct IsSameType {
    static constexpr bool value = false;
};
template <typename A> struct IsSameType<A, A> {
    static constexpr bool value = true;
};

template <typename T> struct IsPointerType {
    static constexpr bool value = false;
};
template <typename T> struct IsPointerType<T *> {
    static constexpr bool value = true;
};

} // namespace fusiond

#endif
