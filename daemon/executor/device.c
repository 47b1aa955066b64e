#include "daemon/executor/device.h"

struct device device_describe(const struct device_facts *facts)
{
    return (struct device){
        .ordinal = facts->ordinal,
        .has_ordinal = true,
        .name = facts->name,
        .uuid = facts->uuid,
        .capability = facts->capability,
        .has_capability = facts->capability > 0,
        .kind = facts->kind,
        .memory_bytes = facts->memory_bytes,
        .has_memory_bytes = facts->memory_bytes > 0,
        .multiprocessors = facts->multiprocessors,
        .has_multiprocessors = facts->multiprocessors > 0,
        .driver = facts->driver,
        .has_driver = facts->driver > 0,
    };
}
