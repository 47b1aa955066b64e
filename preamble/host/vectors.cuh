// The built-in vector types, dim3, and their makers, with CUDA's sizes and alignments.
#ifndef FUSIOND_HOST_VECTORS_CUH
#define FUSIOND_HOST_VECTORS_CUH

#define FUSIOND_HOST_VECTOR(NAME, T)                                                                                   \
    struct NAME##1 {                                                                                                   \
        T x;                                                                                                           \
    };                                                                                                                 \
    struct alignas(2 * sizeof(T)) NAME##2 {                                                                            \
        T x, y;                                                                                                        \
    };                                                                                                                 \
    struct NAME##3 {                                                                                                   \
        T x, y, z;                                                                                                     \
    };                                                                                                                 \
    struct alignas(sizeof(T) == 8 ? 16 : 4 * sizeof(T)) NAME##4 {                                                      \
        T x, y, z, w;                                                                                                  \
    };                                                                                                                 \
    inline constexpr NAME##1 make_##NAME##1(T x)                                                                       \
    {                                                                                                                  \
        return NAME##1{x};                                                                                             \
    }                                                                                                                  \
    inline constexpr NAME##2 make_##NAME##2(T x, T y)                                                                  \
    {                                                                                                                  \
        return NAME##2{x, y};                                                                                          \
    }                                                                                                                  \
    inline constexpr NAME##3 make_##NAME##3(T x, T y, T z)                                                             \
    {                                                                                                                  \
        return NAME##3{x, y, z};                                                                                       \
    }                                                                                                                  \
    inline constexpr NAME##4 make_##NAME##4(T x, T y, T z, T w)                                                        \
    {                                                                                                                  \
        return NAME##4{x, y, z, w};                                                                                    \
    }

FUSIOND_HOST_VECTOR(char, signed char)
FUSIOND_HOST_VECTOR(uchar, unsigned char)
FUSIOND_HOST_VECTOR(short, short)
FUSIOND_HOST_VECTOR(ushort, unsigned short)
FUSIOND_HOST_VECTOR(int, int)
FUSIOND_HOST_VECTOR(uint, unsigned)
FUSIOND_HOST_VECTOR(long, long)
FUSIOND_HOST_VECTOR(ulong, unsigned long)
FUSIOND_HOST_VECTOR(longlong, long long)
FUSIOND_HOST_VECTOR(ulonglong, unsigned long long)
FUSIOND_HOST_VECTOR(float, float)
FUSIOND_HOST_VECTOR(double, double)
#undef FUSIOND_HOST_VECTOR

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
    constexpr operator uint3() const
    {
        return uint3{x, y, z};
    }
};

static_assert(sizeof(float3) == 12 && alignof(float3) == 4 && alignof(float4) == 16 && alignof(double4) == 16 &&
                  sizeof(uint3) == 12 && sizeof(dim3) == 12,
              "vector types");

#endif
