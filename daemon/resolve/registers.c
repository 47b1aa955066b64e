#include "daemon/resolve/registers.h"

#include "daemon/resolve/arch.h"

#define WARP 32u
#define UNIT 256u /* registers are given to a warp in units of this many */

unsigned register_class(unsigned capability, unsigned block_size)
{
    const struct arch *arch = arch_find(capability);
    unsigned warps = (block_size + WARP - 1) / WARP;
    /* The fullest partition decides. */
    unsigned warps_there = (warps + arch->partitions - 1) / arch->partitions;
    unsigned per_warp = arch->registers / arch->partitions / warps_there / UNIT * UNIT;
    unsigned per_thread = per_warp / WARP;
    return per_thread < REGISTER_MAX ? per_thread : REGISTER_MAX;
}

unsigned register_limit(unsigned capability, unsigned block_size, unsigned max_registers)
{
    unsigned limit = max_registers ? max_registers : REGISTER_MAX;
    if (block_size) {
        unsigned class = register_class(capability, block_size);
        limit = class < limit ? class : limit;
    }
    return limit < REGISTER_MAX ? limit : 0;
}
