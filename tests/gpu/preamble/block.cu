// Collectives of a block, each with every flag set and in every call form. Values are small integers, so that sums are
// exact in any order. Each result is first set to 100, to see what is folded in and what is left alone.

// Which value a thread contributes and whether it reads and writes; the host computes the same.
__device__ int value_of(int salt, unsigned position)
{
    return (int)((position * 2654435761u + (unsigned)salt * 40503u) >> 20 & 63) - 20;
}
__device__ bool reads(int preds, unsigned position)
{
    return !(preds & 1) || position % 3 != 1;
}
__device__ bool writes(int preds, unsigned position)
{
    return !(preds & 2) || position % 5 != 2;
}
__device__ unsigned position_of()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

template <bool X, bool Y, bool Z, typename T, typename Func>
__device__ void reduce_once(int form, T &out, const T &inp, Func op, T *shared, bool read, bool write, T init)
{
    if (form == 0)
        blockReduce<X, Y, Z, true>(out, inp, op, shared, read, write, init, DefaultBlockDim());
    else if (form == 1)
        blockReduce<X, Y, Z, false>(out, inp, op, shared, read, write, init, DefaultBlockDim());
    else if (form == 2)
        blockReduce<X, Y, Z, false>(out, inp, op, shared, read, write, init, blockDim);
    else if (form == 3)
        blockReduce<X, Y, Z, true>(out, inp, op, shared, read, write, init);
    else if (form == 4)
        blockReduce<X, Y, Z>(out, inp, op, threadIdx, blockDim, shared, read, write, init);
    else if (form == 5)
        blockReduce<X, Y, Z, true>(out, inp, op, shared, read, init, DefaultBlockDim());
    else if (form == 6)
        blockReduce<X, Y, Z, true>(out, inp, op, shared, read, init);
    else
        blockReduce<X, Y, Z>(out, inp, op, threadIdx, blockDim, shared, read, init);
}

// Three calls in a row on the same shared memory: a sum, a maximum, and a sum of other values.
template <bool X, bool Y, bool Z, typename T>
__device__ void reduce_thrice(int form, int preds, T *result, T *shared)
{
    const unsigned position = position_of();
    const auto add = [](T &a, T b) { a = a + b; };
    const auto larger = [](T &a, T b) { a = max(a, b); };
    T first = 100, second = 100, third = 100;
    const T a = (T)value_of(1, position), b = (T)(value_of(2, position) + 90), c = (T)value_of(3, position);
    reduce_once<X, Y, Z>(form, first, a, add, shared, reads(preds, position), writes(preds, position), T(0));
    reduce_once<X, Y, Z>(form, second, b, larger, shared, reads(preds, position), writes(preds, position), T(-1000));
    reduce_once<X, Y, Z>(form, third, c, add, shared, true, true, T(0));
    T *own = result + 3 * (blockIdx.x * blockDim.x * blockDim.y * blockDim.z + position);
    own[0] = first;
    own[1] = second;
    own[2] = third;
}

template <typename T> __global__ void reduce(int flags, int form, int preds, T *result)
{
    alignas(16) extern __shared__ char array[];
    T *shared = reinterpret_cast<T *>(array);
    switch (flags) {
    case 1:
        return reduce_thrice<true, false, false>(form, preds, result, shared);
    case 2:
        return reduce_thrice<false, true, false>(form, preds, result, shared);
    case 3:
        return reduce_thrice<true, true, false>(form, preds, result, shared);
    case 4:
        return reduce_thrice<false, false, true>(form, preds, result, shared);
    case 5:
        return reduce_thrice<true, false, true>(form, preds, result, shared);
    case 6:
        return reduce_thrice<false, true, true>(form, preds, result, shared);
    default:
        return reduce_thrice<true, true, true>(form, preds, result, shared);
    }
}

// Two broadcasts in a row, of different values.
template <bool X, bool Y, bool Z> __device__ void broadcast_twice(int form, double *result, double *shared)
{
    const unsigned position = position_of();
    double first = 100, second = 100;
    const double a = value_of(4, position), b = value_of(5, position);
    // The predicate is true for each source and false for some receivers.
    const bool source = (!X || threadIdx.x == 0) && (!Y || threadIdx.y == 0) && (!Z || threadIdx.z == 0);
    const bool pred = source || position % 4 != 3;
    if (form == 0) {
        broadcast::blockBroadcast<X, Y, Z, true>(first, a, shared, pred, DefaultBlockDim());
        broadcast::blockBroadcast<X, Y, Z, false>(second, b, shared, true, DefaultBlockDim());
    } else if (form == 1) {
        broadcast::blockBroadcast<X, Y, Z, true>(first, a, shared, pred);
        broadcast::blockBroadcast<X, Y, Z, true>(second, b, shared, true, blockDim);
    } else {
        broadcast::blockBroadcast<X, Y, Z>(first, a, shared, pred);
        broadcast::blockBroadcast<X, Y, Z>(second, b, shared, true);
    }
    result[2 * position] = first;
    result[2 * position + 1] = second;
}

__global__ void spread(int flags, int form, double *result)
{
    alignas(16) extern __shared__ char array[];
    double *shared = reinterpret_cast<double *>(array);
    switch (flags) {
    case 1:
        return broadcast_twice<true, false, false>(form, result, shared);
    case 2:
        return broadcast_twice<false, true, false>(form, result, shared);
    case 3:
        return broadcast_twice<true, true, false>(form, result, shared);
    case 4:
        return broadcast_twice<false, false, true>(form, result, shared);
    case 5:
        return broadcast_twice<true, false, true>(form, result, shared);
    case 6:
        return broadcast_twice<false, true, true>(form, result, shared);
    default:
        return broadcast_twice<true, true, true>(form, result, shared);
    }
}

// Grouped reductions over y, twice in a row.
template <int N, typename T> __global__ void grouped(int preds, T *result)
{
    alignas(16) extern __shared__ char array[];
    T *shared = reinterpret_cast<T *>(array);
    const unsigned position = position_of();
    const auto add = [](T &a, T b) { a = a + b; };
    Array<T, N, N> in, first, second;
    first.set(100);
    second.set(100);
    for (int i = 0; i < N; ++i)
        in[i] = (T)value_of(10 + i, position);
    blockIterGroupedYdimReduce<true, N>(*(T(*)[N])(&first[0]), *(T(*)[N])(&in[0]), add, shared, reads(preds, position),
                                        writes(preds, position), T(0), DefaultBlockDim());
    blockIterGroupedYdimReduce<false, N>(second.array, in.array, add, shared, true, T(0));
    for (int i = 0; i < N; ++i) {
        result[(2 * position + 0) * N + i] = first[i];
        result[(2 * position + 1) * N + i] = second[i];
    }
}

// warpReduceTIDX in its forms (x a multiple of 32), twice in a row. `single`: x is 32.
template <typename T> __global__ void warp_reduce(int single, int form, int preds, T *result)
{
    alignas(16) extern __shared__ char array[];
    T *shared = reinterpret_cast<T *>(array);
    const unsigned position = position_of();
    const auto add = [](T &a, T b) { a = a + b; };
    const T in = (T)value_of(6, position);
    const bool pred = reads(preds, position);
    T out[2] = {100, 100};
    for (int round = 0; round < 2; ++round) {
        T &o = out[round];
        if (single) {
            if (form == 0)
                warp::warpReduceTIDX<true, true>(o, in, add, shared, pred, T(0), DefaultBlockDim());
            else if (form == 1)
                warp::warpReduceTIDX<true, false>(o, in, add, shared, pred, T(0));
            else
                warp::warpReduceTIDX<true>(o, in, add, threadIdx, blockDim, shared, pred, T(0));
        } else {
            if (form == 0)
                warp::warpReduceTIDX<false, true>(o, in, add, shared, pred, T(0), DefaultBlockDim());
            else if (form == 1)
                warp::warpReduceTIDX<false, false>(o, in, add, shared, pred, T(0), blockDim);
            else
                warp::warpReduceTIDX<false>(o, in, add, threadIdx, blockDim, shared, pred, T(0));
        }
    }
    result[2 * position] = out[0];
    result[2 * position + 1] = out[1];
}

// A block of 12 x 8 threads, reduced by its three warps.
__global__ void warp_reduce_xy(double *result)
{
    alignas(16) extern __shared__ char array[];
    double out = 100;
    const double in = value_of(7, position_of());
    double *shared = reinterpret_cast<double *>(array);
    warp::warpReduceTIDXY<12, 8, true>(out, in, [](double &a, double b) { a = a + b; }, shared, true, double(0),
                                       DefaultBlockDim());
    result[position_of()] = out;
}

// 128 compute threads and 32 of another role in x, two independent rows in y with barriers of their own.
__global__ void roles(float *result)
{
    alignas(16) extern __shared__ char array[];
    if (threadIdx.x >= 128)
        return;
    const unsigned position = position_of();
    float *shared = reinterpret_cast<float *>(array) + threadIdx.y * 4 * 4;
    const float in = (float)value_of(8, position);
    float largest = 100, sum = 100;
    warp::staticWarpAllReduceTIDX<false, false, 128>(largest, in, [](float &a, float b) { a = max(a, b); }, shared,
                                                     1 + threadIdx.y);
    Array<float, 4, 4> ins, outs;
    for (int i = 0; i < 4; ++i)
        ins[i] = in + (float)i;
    warp::iterGroupedStaticWarpAllReduce<false, false, 4, 128>(outs.array, ins.array,
                                                               [](float &a, float b) { a = a + b; }, shared,
                                                               1 + threadIdx.y);
    // All compute threads of both rows, as one barrier of 256.
    block_sync::sync<false>(dim3(128, 2, 1), 3);
    blockReduce<true, true, false, false>(sum, in, [](float &a, float b) { a = a + b; },
                                          reinterpret_cast<float *>(array), true, true, 0.f, dim3(128, 2, 1));
    result[3 * position] = largest;
    result[3 * position + 1] = outs[0] + 1000.f * (outs[3] - outs[0]);
    result[3 * position + 2] = sum;
}
