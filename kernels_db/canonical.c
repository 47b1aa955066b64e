#include "kernels_db/canonical.h"

#include <stdlib.h>
#include <string.h>

static void feed(struct canonical *canonical, const void *bytes, size_t size)
{
    if (size)
        crypto_generichash_update(&canonical->state, bytes, size);
}

void canonical_init(struct canonical *canonical, const char tag[CANONICAL_TAG + 1])
{
    if (strlen(tag) != CANONICAL_TAG)
        abort();
    crypto_generichash_init(&canonical->state, NULL, 0, DIGEST_SIZE);
    feed(canonical, tag, CANONICAL_TAG);
}

void canonical_byte(struct canonical *canonical, uint8_t value)
{
    feed(canonical, &value, 1);
}

void canonical_number(struct canonical *canonical, uint64_t value)
{
    uint8_t little[8];
    for (size_t i = 0; i < sizeof little; i++)
        little[i] = (uint8_t)(value >> (8 * i));
    feed(canonical, little, sizeof little);
}

void canonical_bytes(struct canonical *canonical, struct bytes value)
{
    size_t size = value.at ? value.size : 0;
    canonical_number(canonical, size);
    feed(canonical, value.at, size);
}

void canonical_text(struct canonical *canonical, struct text value)
{
    canonical_bytes(canonical, (struct bytes){(const uint8_t *)value.at, value.size});
}

void canonical_digest(struct canonical *canonical, const uint8_t digest[DIGEST_SIZE])
{
    feed(canonical, digest, DIGEST_SIZE);
}

void canonical_finish(struct canonical *canonical, uint8_t ret[DIGEST_SIZE])
{
    crypto_generichash_final(&canonical->state, ret, DIGEST_SIZE);
}
