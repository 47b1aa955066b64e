// Arguments of every size and alignment, and names with commas.
struct __align__(32) Wide {
    float v[8];
};
struct Odd {
    char c;
    short s;
    char d;
};
enum class Mode : unsigned char { Sum = 3, Other = 7 };

template <typename T, int n, Mode mode>
__global__ void arguments(T *out, bool b, char c, Odd odd, Wide wide, double d, const T *const *table, dim3 extents)
{
    if (threadIdx.x == 0) {
        T sum = b ? 1 : 0;
        sum += c + odd.c + odd.s + odd.d + (T)d + (T)mode + n;
        for (int i = 0; i < 8; ++i)
            sum += (T)wide.v[i];
        out[0] = sum + *table[1] + extents.x * extents.y * extents.z;
    }
}

__global__ void nothing()
{
}
