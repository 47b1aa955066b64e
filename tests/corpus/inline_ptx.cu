// corpus: entry=stamp N=32|64
extern "C" __global__ void stamp(unsigned *out, const unsigned *in)
{
    unsigned lane, sum, id;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(in[threadIdx.x]), "r"($Nu), "r"(lane));
    asm volatile("{\n .reg .u32 t;\n mov.u32 t, %%smid;\n xor.b32 %0, t, %1;\n}" : "=r"(id) : "r"(sum));
    unsigned long long packed;
    asm("mov.b64 %0, {%1, %2};" : "=l"(packed) : "r"(sum), "r"(id));
    reinterpret_cast<unsigned long long *>(out)[threadIdx.x] = packed;
}
