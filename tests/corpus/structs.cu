// corpus: entry=walk N=3|5
struct vec {
    float v[$N];
    __device__ vec operator+(const vec &o) const
    {
        vec r;
        for (int i = 0; i < $N; i++)
            r.v[i] = v[i] + o.v[i];
        return r;
    }
    __device__ float dot(const vec &o) const
    {
        float sum = 0;
        for (int i = 0; i < $N; i++)
            sum += v[i] * o.v[i];
        return sum;
    }
};
struct job {
    vec from, step;
    unsigned char flags;
    int n;
};
extern "C" __global__ void walk(float *out, job j)
{
    vec at = j.from;
    for (int i = 0; i < j.n; i++)
        at = at + j.step;
    out[threadIdx.x] = j.flags & 1 ? at.dot(j.step) : at.v[threadIdx.x % $N];
}
