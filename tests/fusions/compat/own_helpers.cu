// A hand-written kernel that brings functions of the names and signatures of the library: no redefinition, its own win.
__device__ int ceilDiv(int a, int b) {
  static_assert(sizeof(b) == 4, "");
  return (a + b - 1) / b;
}
__device__ float sigmoid(float x) { return 1.f / (1.f + __expf(-x)); }
__device__ __forceinline__ float relu(float x) { return x > 0.f ? x : 0.f; }
__device__ float clamp(float x, float low, float high) { return fminf(fmaxf(x, low), high); }
__device__ float lerp(float a, float b, float t) { return a + t * (b - a); }
__device__ double reciprocal(double x) { return 1.0 / x; }
template <typename T> __device__ T silu(T x) { return x * sigmoid(x); }
template <typename T> __device__ T max(T a, T b) { return a > b ? a : b; }
__device__ float abs(float x) { return x < 0 ? -x : x; }
__device__ bool isfinite(float x) { return x - x == 0.f; }

__global__ void gated(Tensor<float, 1, 1> T0, Tensor<float, 1, 1> T1, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < ceilDiv(n, 1); i += gridDim.x * blockDim.x) {
    const float x = T0[i];
    float y = relu(x) + sigmoid(x) + clamp(x, 0.f, 1.f) + lerp(x, 1.f, 0.5f) + silu(x) + max(x, 0.f);
    y += (float)reciprocal((double)x) + abs(x) + (isfinite(x) ? 1.f : 0.f) + min(x, 2.f);
    T1[i] = y;
  }
}
