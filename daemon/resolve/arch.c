#include "daemon/resolve/arch.h"

#include <stddef.h>

static const struct arch archs[] = {
#define ARCH(capability, registers, partitions, shared, shared_a) {capability, registers, partitions, shared, shared_a},
#include "daemon/resolve/arch.def"
#undef ARCH
};

const struct arch *arch_find(unsigned capability)
{
    const struct arch *found = &archs[0];
    for (size_t i = 0; i < sizeof archs / sizeof archs[0] && archs[i].capability <= capability; i++)
        found = &archs[i];
    return found;
}
