// The table that an image exports: made from the types of its kernels, so that sizes are the compiler's own.
#ifndef FUSIOND_HOST_ENTRY_CUH
#define FUSIOND_HOST_ENTRY_CUH

namespace fusiond_host
{
template <unsigned... at> struct Positions {
};
template <unsigned n, unsigned... at> struct Count : Count<n - 1, n - 1, at...> {
};
template <unsigned... at> struct Count<0, at...> {
    typedef Positions<at...> type;
};

template <typename... P> struct Parameters {
    // One more, so that there is no empty array.
    static constexpr fusiond_host_parameter table[sizeof...(P) + 1] = {{sizeof(P), alignof(P)}..., {0, 0}};
};

template <typename F, F kernel> struct Kernel {
    static_assert(!__is_same(F, F), "an entry must be a __global__ function that returns void");
};
template <typename... P, void (*kernel)(P...)> struct Kernel<void (*)(P...), kernel> {
    template <unsigned... at> static void expand(void *const *arguments, Positions<at...>)
    {
        kernel(*static_cast<P *>(arguments[at])...);
    }
    static void call(void *const *arguments)
    {
        expand(arguments, typename Count<sizeof...(P)>::type());
    }
    static constexpr fusiond_host_entry entry(const char *name)
    {
        return {name, call, sizeof...(P), Parameters<P...>::table};
    }
};
template <typename... P, void (*kernel)(P...) noexcept>
struct Kernel<void (*)(P...) noexcept, kernel> : Kernel<void (*)(P...), kernel> {
};
} // namespace fusiond_host

#define FUSIOND_HOST_IMAGE_BEGIN static const fusiond_host_entry fusiond_host_entries[] = {
#define FUSIOND_HOST_ENTRY(NAME, ...) fusiond_host::Kernel<decltype(&__VA_ARGS__), &__VA_ARGS__>::entry(NAME),
#define FUSIOND_HOST_IMAGE_END                                                                                         \
    }                                                                                                                  \
    ;                                                                                                                  \
    extern "C" __attribute__((visibility("default"))) const fusiond_host_image fusiond_host_image = {                  \
        FUSIOND_HOST_ABI, sizeof(fusiond_host_entries) / sizeof(fusiond_host_entries[0]), fusiond_host_entries,        \
        fusiond_host::attach, fusiond_host::here};

#endif
