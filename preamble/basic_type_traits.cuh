// The part of <type_traits> that kernels and other modules name, as std seen from inside the kernel's namespace.
// NVRTC has no standard library of its own; a kernel's unqualified std::x resolves here.
#ifndef FUSIOND_BASIC_TYPE_TRAITS_CUH
#define FUSIOND_BASIC_TYPE_TRAITS_CUH

namespace fusiond
{
namespace std
{

template <typename T> __device__ T &&declval() noexcept;

template <typename T, T v> struct integral_constant {
    static constexpr T value = v;
    typedef T value_type;
    typedef integral_constant type;
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;

template <bool C, typename T = void> struct enable_if {
};
template <typename T> struct enable_if<true, T> {
    typedef T type;
};
template <bool C, typename T = void> using enable_if_t = typename enable_if<C, T>::type;

template <bool C, typename A, typename B> struct conditional {
    typedef A type;
};
template <typename A, typename B> struct conditional<false, A, B> {
    typedef B type;
};
template <bool C, typename A, typename B> using conditional_t = typename conditional<C, A, B>::type;

template <typename A, typename B> struct is_same : false_type {
};
template <typename A> struct is_same<A, A> : true_type {
};
template <typename A, typename B> constexpr bool is_same_v = is_same<A, B>::value;

template <typename T> struct remove_const {
    typedef T type;
};
template <typename T> struct remove_const<const T> {
    typedef T type;
};
template <typename T> using remove_const_t = typename remove_const<T>::type;

template <typename T> struct remove_volatile {
    typedef T type;
};
template <typename T> struct remove_volatile<volatile T> {
    typedef T type;
};
template <typename T> using remove_volatile_t = typename remove_volatile<T>::type;

template <typename T> struct remove_cv {
    typedef remove_const_t<remove_volatile_t<T>> type;
};
template <typename T> using remove_cv_t = typename remove_cv<T>::type;

namespace traits_impl
{
template <typename T, typename... List> constexpr bool is_one_of = (is_same_v<T, List> || ...);
}

template <typename T>
struct is_integral
    : integral_constant<bool, traits_impl::is_one_of<remove_cv_t<T>, bool, char, signed char, unsigned char, wchar_t,
                                                     char16_t, char32_t, short, unsigned short, int, unsigned, long,
                                                     unsigned long, long long, unsigned long long>> {
};
template <typename T> constexpr bool is_integral_v = is_integral<T>::value;

template <typename T>
struct is_floating_point : integral_constant<bool, traits_impl::is_one_of<remove_cv_t<T>, float, double>> {
};
template <typename T> constexpr bool is_floating_point_v = is_floating_point<T>::value;

template <typename T>
struct is_arithmetic : integral_constant<bool, is_integral<T>::value || is_floating_point<T>::value> {
};
template <typename T> constexpr bool is_arithmetic_v = is_arithmetic<T>::value;

} // namespace std
} // namespace fusiond

#endif
