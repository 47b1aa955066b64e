#include "tests/unit/daemon/held.h"

#include <criterion/criterion.h>
#include <string.h>

#include "kernels_db/kernel_key.h"

struct kernel_id held_id(unsigned number)
{
    struct kernel_id id = {.owner = 1000};
    digest_of(&number, sizeof number, id.key);
    return id;
}

struct held_kernel *held_of(unsigned number, size_t image_size)
{
    struct kernel_id id = held_id(number);
    struct held_kernel *held = held_kernel_create(&id);
    cr_assert_not_null(held);
    uint8_t *image = msgpack_zone_malloc(&held->zone, image_size);
    struct kernel_entry *entry = msgpack_zone_malloc(&held->zone, sizeof *entry);
    cr_assert(image && entry);
    for (size_t i = 0; i < image_size; i++)
        image[i] = (uint8_t)(number + i);
    *entry = (struct kernel_entry){.name = TEXT_OF("f"), .lowered = TEXT_OF("f")};
    held->kernel = (struct kernel){
        .has_key = true,
        .target = TEXT_OF("sm_90a"),
        .image_kind = IMAGE_KIND_CUBIN,
        .entries = entry,
        .n_entries = 1,
        .compiler = TEXT_OF("nvrtc 13.0"),
        .has_build = true,
        .created_unix_s = 1700000000u + number,
        .has_created_unix_s = true,
        .image_size = image_size,
        .has_image_size = true,
        .ptx_size = 3,
        .has_ptx_size = true,
        .log = TEXT_OF(""),
        .code = TEXT_OF("__global__ void f() {}"),
        .image = {image, image_size},
        .ptx = {(const uint8_t *)"ptx", 3},
    };
    memcpy(held->kernel.key, id.key, sizeof id.key);
    return held;
}

bool held_is(const struct held_kernel *kernel, unsigned number)
{
    const struct bytes image = kernel->kernel.image;
    for (size_t i = 0; i < image.size; i++)
        if (image.at[i] != (uint8_t)(number + i))
            return false;
    return image.at && kernel->kernel.image_size == image.size;
}
