// corpus: entry=second<$T> T=float|int
namespace inner {
template <typename T> __device__ T twice(T x) { return x + x; }
}
__global__ void first(float *x) { x[threadIdx.x] = inner::twice(x[threadIdx.x]); }
template <typename T> __global__ void second(T *x) { x[threadIdx.x] = inner::twice(x[threadIdx.x]) + T(1); }
extern "C" __global__ void third(double *x) { x[threadIdx.x] = inner::twice(x[threadIdx.x]) / 3; }
