// corpus: entry=area N=1|2
struct shape {
    __device__ virtual float area() const = 0;
};
struct box : shape {
    float a, b;
    __device__ box(float x, float y) : a(x), b(y) {}
    __device__ float area() const override { return a * b * $N; }
};
struct disc : shape {
    float r;
    __device__ disc(float x) : r(x) {}
    __device__ float area() const override { return 3.14159265f * r * r; }
};
extern "C" __global__ void area(float *out, const float *in)
{
    box b(in[0], in[1]);
    disc d(in[2]);
    const shape *s = threadIdx.x % 2 ? static_cast<const shape *>(&b) : &d;
    out[threadIdx.x] = s->area();
}
