// What the tests of the host device's runtime ask of it, one kernel each.
#include <cooperative_groups.h>

// Half of the threads leave; the others meet three times, and read what the ones beside them wrote.
__global__ void barrier_with_exits(int *out)
{
    __shared__ int s[256];
    const int t = threadIdx.x;
    if (t % 2)
        return;
    for (int round = 0; round < 3; ++round) {
        s[t] = t + round;
        __syncthreads();
        out[t] = s[(t + 2) % blockDim.x] - round;
        __syncthreads();
    }
}

__global__ void votes(int *out)
{
    const int t = threadIdx.x;
    if (t == 5)
        return;
    out[3 * t] = __syncthreads_count(t < 10);
    out[3 * t + 1] = __syncthreads_and(t != 5) + 2 * __syncthreads_and(t != 6);
    out[3 * t + 2] = __syncthreads_or(t == 5) + 2 * __syncthreads_or(t == 6);
}

// Two groups of warps pass ten barriers of their own; the first is much slower.
__global__ void named_barriers(int *out)
{
    __shared__ int s[2][64];
    const int group = threadIdx.x / 64, t = threadIdx.x % 64;
    for (int i = 0; i < 10; ++i) {
        s[group][t] = t * i;
        if (group == 0)
            __nanosleep(10);
        __barrier_sync_count(1 + group, 64);
        out[threadIdx.x] = s[group][63 - t];
        __barrier_sync_count(1 + group, 64);
    }
}

// Every shuffle of every width, by lane: out[(form * 6 + log2(width)) * 32 + lane].
__global__ void all_shuffles(int *out, int argument)
{
    const int lane = threadIdx.x;
    for (int w = 0; w < 6; ++w) {
        const int width = 1 << w;
        out[(0 * 6 + w) * 32 + lane] = __shfl_sync(~0u, 100 + lane, argument, width);
        out[(1 * 6 + w) * 32 + lane] = __shfl_up_sync(~0u, 100 + lane, argument, width);
        out[(2 * 6 + w) * 32 + lane] = __shfl_down_sync(~0u, 100 + lane, argument, width);
        out[(3 * 6 + w) * 32 + lane] = __shfl_xor_sync(~0u, 100 + lane, argument, width);
    }
}

// Lanes meet by mask: even and odd ones at different places, and each of four quarters on its own.
__global__ void masked(unsigned long long *out)
{
    const unsigned lane = threadIdx.x % 32;
    unsigned long long v = 1ull << lane;
    if (lane % 2) {
        for (int i = 2; i < 32; i *= 2)
            v |= __shfl_xor_sync(0xaaaaaaaau, v, i);
    } else {
        __syncwarp(0x55555555u);
        v |= (unsigned long long)__ballot_sync(0x55555555u, lane > 10) << 32;
    }
    const unsigned quarter = 0xffu << (lane & ~7u);
    v += __shfl_sync(quarter, (unsigned long long)lane, 3, 8) << 56;
    out[threadIdx.x] = v;
}

// Lanes 8 and above are gone; a full mask means those that are left.
__global__ void shuffle_with_exits(int *out)
{
    const int lane = threadIdx.x;
    if (lane >= 8)
        return;
    out[lane] = __shfl_down_sync(~0u, lane, 1);
    out[8 + lane] = (int)__ballot_sync(~0u, 1);
    out[16 + lane] = __reduce_add_sync(~0u, lane);
}

__global__ void matches(unsigned *out)
{
    const unsigned lane = threadIdx.x;
    int all;
    out[lane] = __match_any_sync(~0u, lane / 5);
    out[32 + lane] = __match_all_sync(~0u, 7.5, &all) + all;
    out[64 + lane] = __match_all_sync(~0u, lane, &all) + all;
    out[96 + lane] = __reduce_max_sync(~0u, (lane * 7) % 32) + __reduce_xor_sync(~0u, lane == 3 ? 64u : 0u);
}

__global__ void stuck()
{
    if (threadIdx.x < 31)
        __syncthreads();
    else
        __syncwarp(3u << 30);
    if (threadIdx.x == 30)
        __syncwarp(3u << 30);
}

__global__ void stuck_lanes()
{
    if (threadIdx.x == 0)
        __syncwarp(3u);
    else
        __syncthreads();
}

__global__ void traps(int block)
{
    if ((int)blockIdx.x == block && threadIdx.x == 2)
        __trap();
    __syncthreads();
}

__global__ void asserts(int x)
{
    assert(x > 3 && "x is small");
}

__global__ void prints(double d)
{
    if (threadIdx.x == 1)
        printf("thread %d of %u: %.2f %s\n", threadIdx.x, blockDim.x, d, "good");
}

// A block that fails while the others wait: for the grid, in a loop of their own, at their barrier.
__global__ void one_fails(volatile int *never, int how)
{
    if (blockIdx.x == 1) {
        if (threadIdx.x == 0)
            __trap();
    } else if (how == 0) {
        cooperative_groups::this_grid().sync();
    } else {
        while (atomicAdd((int *)never, 0) == 0) {
        }
    }
}

__global__ void is_cooperative(int *out)
{
    *out = cooperative_groups::this_grid().is_valid();
}

__global__ void grid_rounds(unsigned *counter, unsigned *wrong, int rounds)
{
    auto grid = cooperative_groups::this_grid();
    for (int i = 0; i < rounds; ++i) {
        atomicAdd(counter, 1);
        grid.sync();
        if (*(volatile unsigned *)counter != (i + 1) * grid.size())
            atomicAdd(wrong, 1);
        grid.sync();
    }
    if (blockIdx.x % 3 == 1)
        return; // the rest goes on without
    grid.sync();
}

__global__ void dynamic_shared(unsigned *out, unsigned words)
{
    extern __shared__ unsigned first[];
    extern __shared__ double second[];
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
        first[i] = i * 3 + blockIdx.x;
    __syncthreads();
    unsigned wrong = (size_t)first % 128 != 0 || (void *)first != (void *)second;
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
        wrong += first[words - 1 - i] != (words - 1 - i) * 3 + blockIdx.x;
    atomicAdd(out, wrong);
}

// Each block counts itself, and finds its shared memory its own across barriers.
__global__ void blocks_once(unsigned *count, unsigned *wrong)
{
    __shared__ unsigned mine[64];
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    mine[t] = block * 1000 + t;
    __syncthreads();
    const unsigned n = blockDim.x * blockDim.y * blockDim.z;
    if (mine[n - 1 - t] != block * 1000 + n - 1 - t)
        atomicAdd(wrong, 1);
    __syncthreads();
    if (t == 0)
        atomicAdd(&count[block], 1);
}

__device__ __noinline__ int deep(int n, volatile int *out)
{
    volatile int space[64];
    space[n % 64] = n;
    const int rest = n > 0 ? deep(n - 1, out) : *out;
    return rest + space[n % 64];
}

__global__ void recursion(int depth, volatile int *out)
{
    *out = deep(depth, out);
}

__global__ void follows(int *null)
{
    if (threadIdx.x == 3)
        *null = 1;
}

__global__ void atomics(int *i, unsigned *u, float *f, double *d, unsigned long long *l)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&i[0], t);
    atomicSub(&i[1], t);
    atomicMin(&i[2], -t);
    atomicMax(&i[3], t);
    atomicOr(&u[0], 1u << t % 32);
    atomicAnd(&u[1], ~(1u << t % 31));
    atomicXor(&u[2], 1u << t % 32);
    atomicInc(&u[3], 6);
    atomicDec(&u[4], 6);
    atomicAdd(&f[0], 0.5f);
    atomicMax(&f[1], (float)t);
    atomicAdd(&d[0], 0.25);
    atomicAdd(&l[0], 1ull << 33);
    if (t == 0) {
        f[2] = __int_as_float(0x7f800000);
        const float was = atomicExch(&f[2], 2.0f);
        f[3] = atomicExch(&f[2], was); // an infinity comes out as it went in
        i[4] = atomicCAS(&i[5], 7, 8) + 100 * atomicCAS(&i[5], 7, 9);
    }
}
