// corpus: toolkit entry=pack T=float|int
#include <cuda/std/array>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
template <typename T> __device__ auto split(T x) { return cuda::std::make_tuple(x / 2, x - x / 2); }
extern "C" __global__ void pack($T *out, const $T *in)
{
    cuda::std::array<$T, 4> all{};
    static_assert(cuda::std::is_arithmetic<$T>::value, "a number");
    for (int i = 0; i < 4; i++) {
        auto [low, high] = split(in[threadIdx.x * 4 + i]);
        all[i] = i % 2 ? low : high;
    }
    for (auto x : all)
        out[threadIdx.x] += x;
}
