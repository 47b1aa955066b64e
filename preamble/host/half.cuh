// IEEE binary16 to and from other numbers, as the PTX conversions do it: one rounding, to nearest even; integers are
// cut and saturated. The compiler's own _Float16 does the rounding.
#ifndef FUSIOND_HOST_HALF_CUH
#define FUSIOND_HOST_HALF_CUH

namespace fusiond_host
{
// The canonical NaN of a conversion.
inline unsigned short half_bits(_Float16 value)
{
    unsigned short bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fff : bits;
}
inline _Float16 half_of(unsigned short bits)
{
    _Float16 value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// From float and double, which are rounded once.
inline unsigned short to_half(float value)
{
    return half_bits((_Float16)value);
}
inline unsigned short to_half(double value)
{
    return half_bits((_Float16)value);
}
// Integers above 65504 are infinity, and all below 2^53 are exact as double: again one rounding.
template <typename I> inline unsigned short to_half(I value)
{
    return half_bits((_Float16)(double)value);
}
inline float half_to_float(unsigned short bits)
{
    return (float)half_of(bits);
}
} // namespace fusiond_host

#endif
