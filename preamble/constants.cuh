// The infinities and NaN, by the names that kernels write for such literals. All are float, whatever the kernel's type.
#ifndef FUSIOND_CONSTANTS_CUH
#define FUSIOND_CONSTANTS_CUH

#ifndef POS_INFINITY
#define POS_INFINITY __int_as_float(0x7f800000)
#endif
#ifndef INFINITY
#define INFINITY POS_INFINITY
#endif
#ifndef NEG_INFINITY
#define NEG_INFINITY __int_as_float((int)0xff800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

#endif
