// Casts, NaN rules and arithmetic, one case per thread; the host compares with code of its own.

struct FromHalf {
    float f;
    unsigned vector_f; // the bits by the vector form
    double d;
    int i32, u32;
    int64_t i64, u64;
    int index;
    int flags; // 1 bool, 2 equal to itself, 4 isnan, 8 isinf, 16 isfinite
    unsigned abs;
    unsigned other; // as the other 16-bit type
};

__global__ void from_half(FromHalf *out)
{
    const unsigned bits = blockIdx.x * blockDim.x + threadIdx.x;
    const __half h = half_impl::from_bits(bits);
    FromHalf o;
    o.f = __half2float(h);
    Array<__half, 4, 4> four;
    four.set(h);
    o.vector_f = __float_as_uint(__half2float(four)[3]);
    o.d = __half2double(h);
    o.i32 = __half2int32(h);
    o.u32 = __half2uint32(h);
    o.i64 = __half2int(h);
    o.u64 = __half2uint(h);
    o.index = (int)__half2index(h);
    o.flags = __half2bool(h) | __heq(h, h) << 1 | isnan(h) << 2 | isinf(h) << 3 | isfinite(h) << 4;
    o.abs = abs(h).raw();
    o.other = __half2bfloat(h).raw();
    out[bits] = o;
}

__global__ void from_bfloat(FromHalf *out)
{
    const unsigned bits = blockIdx.x * blockDim.x + threadIdx.x;
    const __bfloat h = bfloat_impl::from_bits(bits);
    FromHalf o;
    o.f = __bfloat2float(h);
    Array<__bfloat, 4, 4> four;
    four.set(h);
    o.vector_f = __float_as_uint(__bfloat2float(four)[3]);
    o.d = __bfloat2double(h);
    o.i32 = __bfloat2int32(h);
    o.u32 = __bfloat2uint32(h);
    o.i64 = __bfloat2int(h);
    o.u64 = __bfloat2uint(h);
    o.index = (int)__bfloat2index(h);
    o.flags = __bfloat2bool(h) | __heq(h, h) << 1 | isnan(h) << 2 | isinf(h) << 3 | isfinite(h) << 4;
    o.abs = abs(h).raw();
    o.other = __bfloat2half(h).raw();
    out[bits] = o;
}

// Floats to both types, scalar, vector (lower and upper element) and by construction.
__global__ void from_float(const float *in, ushort4 *half, ushort4 *bfloat, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Array<float, 3, 1> three;
    three[0] = in[i];
    three[1] = in[i];
    three[2] = in[i];
    const Array<__half, 3, 1> h = __float2half(three);
    const Array<__bfloat, 3, 1> b = __float2bfloat(three);
    half[i] = make_ushort4(__float2half(in[i]).raw(), h[0].raw(), h[1].raw(), __half(in[i]).raw());
    bfloat[i] = make_ushort4(__float2bfloat(in[i]).raw(), b[0].raw(), b[1].raw(), b[2].raw());
}

__global__ void from_double(const double *in, ushort2 *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = make_ushort2(__double2half(in[i]).raw(), __double2bfloat(in[i]).raw());
}

// As int, uint32_t, int64_t, uint64_t: halves, then bfloats.
__global__ void from_int(const int64_t *in, ushort4 *half, ushort4 *bfloat, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    half[i] = make_ushort4(__int2half((int)in[i]).raw(), __int2half((uint32_t)in[i]).raw(), __int2half(in[i]).raw(),
                           __int2half((uint64_t)in[i]).raw());
    bfloat[i] = make_ushort4(__int2bfloat((int)in[i]).raw(), __int2bfloat((uint32_t)in[i]).raw(),
                             __int2bfloat(in[i]).raw(), __int2bfloat((uint64_t)in[i]).raw());
}

struct Extremes {
    float max, min, fmax, fmin;
    double dmax, dmin, dfmax, dfmin;
    double mixed_max, mixed_fmax;
    float half_max, half_min, bfloat_max, bfloat_min;
};

__global__ void extremes(const float *in, Extremes *out, int n)
{
    const float a = in[blockIdx.x];
    const float b = in[threadIdx.x];
    Extremes o;
    o.max = max(a, b);
    o.min = min(a, b);
    o.fmax = fmax(a, b);
    o.fmin = fmin(a, b);
    o.dmax = max((double)a, (double)b);
    o.dmin = min((double)a, (double)b);
    o.dfmax = fmax((double)a, (double)b);
    o.dfmin = fmin((double)a, (double)b);
    o.mixed_max = max(a, (double)b);
    o.mixed_fmax = fmax((double)a, b);
    o.half_max = __half2float(max(__half(a), __half(b)));
    o.half_min = __half2float(min(__half(a), __half(b)));
    o.bfloat_max = __bfloat2float(max(__bfloat(a), __bfloat(b)));
    o.bfloat_min = __bfloat2float(min(__bfloat(a), __bfloat(b)));
    out[blockIdx.x * n + threadIdx.x] = o;
}

struct Reals {
    double relu, sigmoid, silu, frac, reciprocal, abs, clamp, threshold, signbit, rsqrt;
    double lerp0, lerp1, lerp_half, remainder, fmod, pow2, pow_minus3;
    int64_t classes; // 1 isnan, 2 isinf, 4 isfinite, 8 isposinf, 16 isneginf, 32 isreal
};

template <typename T> __global__ void reals(const double *in, Reals *out)
{
    const T x = (T)in[threadIdx.x];
    Reals o;
    o.relu = relu(x);
    o.sigmoid = sigmoid(x);
    o.silu = silu(x);
    o.frac = frac(x);
    o.reciprocal = reciprocal(x);
    o.abs = abs(x);
    o.clamp = clamp(x, -1.0, 2.0);
    o.threshold = threshold(x, 0.5, -7.0);
    o.signbit = signbit(x);
    o.rsqrt = rsqrt(x);
    o.lerp0 = lerp(x, (T)3, (T)0);
    o.lerp1 = lerp(x, (T)3, (T)1);
    o.lerp_half = lerp(x, (T)3, (T)0.5);
    o.remainder = remainder(x, (T)-2);
    o.fmod = fmod(x, (T)-2);
    o.pow2 = pow(x, 2);
    o.pow_minus3 = pow(x, (int64_t)-3);
    o.classes = isnan(x) | isinf(x) << 1 | isfinite(x) << 2 | isposinf(x) << 3 | isneginf(x) << 4 | isreal(x) << 5;
    out[threadIdx.x] = o;
}

struct Integers {
    int64_t ceil, gcd, pow, remainder, fmod, max, min, clamp, threshold, abs, signbit, aligned, bits;
    uint64_t unsigned_max;
    int64_t unsigned_min;
    int narrow_pow, narrow_remainder, narrow_fmod, narrow_max, zero, zero_later;
};

__global__ void integers(const int64_t *in, Integers *out, int n)
{
    NVFUSER_DEFINE_MAGIC_ZERO
    const int64_t a = in[blockIdx.x];
    const int64_t b = in[threadIdx.x];
    Integers o;
    o.zero = nvfuser_zero;
    o.ceil = a >= 0 && b > 0 ? ceilDiv(a, b) : 0;
    o.gcd = gcd(a, b);
    o.pow = pow(a, b);
    o.remainder = b != 0 ? remainder(a, b) : 0;
    o.fmod = b != 0 ? fmod(a, b) : 0;
    o.max = max(a, b);
    o.min = min(a, (int)b);
    o.clamp = clamp(a, -3, b);
    o.threshold = threshold(a, b, 77);
    o.abs = abs(a);
    o.signbit = signbit(a);
    o.aligned = alignBufferSize((int)(a & 0xffff), 128);
    o.bits = bit_ceil((unsigned)(a & 0xffff));
    o.unsigned_max = max((size_t)a, (int)b);
    o.unsigned_min = min((uint64_t)a, b);
    NVFUSER_UPDATE_MAGIC_ZERO
    o.narrow_pow = pow((int)a, (int)b);
    o.narrow_remainder = (int)b != 0 ? remainder((int)a, (int)b) : 0;
    o.narrow_fmod = (int)b != 0 ? fmod((int)a, (int)b) : 0;
    o.narrow_max = max((int)a, (int)b);
    NVFUSER_UPDATE_MAGIC_ZERO;
    o.zero_later = nvfuser_zero;
    out[blockIdx.x * n + threadIdx.x] = o;
}
