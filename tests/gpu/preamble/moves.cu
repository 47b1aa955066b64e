// Every move of array.cuh at every width, each through its own slot of 32 bytes: result[slot] = input[slot].
template <int bytes> struct Slots {
    typedef unsigned char B;
    int next = 0;
    B *to;
    B *from;

    __device__ void done()
    {
        to += 32;
        from += 32;
    }
    template <bool vol, CacheOp op> __device__ void load()
    {
        Array<B, 32, 32> local;
        local.set(0xee);
        loadGlobalToLocal<B, bytes, vol, op>(&local[0], from);
        for (int i = 0; i < 32; ++i)
            to[i] = local[i];
        done();
    }
    template <bool vol> __device__ void store()
    {
        Array<B, 32, 32> local;
        for (int i = 0; i < 32; ++i)
            local[i] = from[i];
        loadLocalToGlobal<B, bytes, vol>(to, &local[0]);
        done();
    }
    template <bool vol_to, bool vol_from> __device__ void both()
    {
        loadGlobalToGlobal<B, bytes, vol_to, vol_from>(to, from);
        done();
        loadGenericVolatile<B, bytes, vol_to, vol_from>(to, from);
        done();
    }
    __device__ void all()
    {
        load<false, CacheOp::AllLevels>();
        load<false, CacheOp::Streaming>();
        load<false, CacheOp::Global>();
        load<true, CacheOp::Streaming>();
        store<false>();
        store<true>();
        both<false, false>();
        both<false, true>();
        both<true, false>();
        both<true, true>();
        // Through shared memory.
        __shared__ Array<B, 32, 32> shared;
        loadGeneric<B, bytes>(&shared[0], from);
        loadGeneric<B, bytes>(to, &shared[0]);
        done();
    }
};

template <int bytes> __device__ void move(unsigned char *to, unsigned char *from, int width)
{
    Slots<bytes> slots;
    slots.to = to + width * 16 * 32;
    slots.from = from + width * 16 * 32;
    slots.all();
}

__global__ void moves(unsigned char *to, unsigned char *from)
{
    move<1>(to, from, 0);
    move<2>(to, from, 1);
    move<4>(to, from, 2);
    move<8>(to, from, 3);
    move<12>(to, from, 4);
    move<16>(to, from, 5);
    move<32>(to, from, 6);
}
