/* The layout is described, with test vectors, in docs/kernel-key.md. A change of it needs a new tag. */
#include "kernels_db/kernel_key.h"

#include <stdlib.h>
#include <string.h>

#include "kernels_db/canonical.h"

#define TAG "fusiond-kernel-2"

static int text_compare(struct text a, struct text b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.at, b.at, common) : 0;
    if (order)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

/* By name, then digest: a total order, so that equal sets always give equal bytes. */
static int compare_parts(const void *a, const void *b, void *parts_of)
{
    const struct key_part *parts = parts_of;
    const struct key_part *left = &parts[*(const uint16_t *)a];
    const struct key_part *right = &parts[*(const uint16_t *)b];
    int order = text_compare(left->name, right->name);
    return order ? order : memcmp(left->digest, right->digest, DIGEST_SIZE);
}

static void put_part(struct canonical *canonical, const struct key_part *part)
{
    canonical_text(canonical, part->name);
    canonical_digest(canonical, part->digest);
}

static void put_texts(struct canonical *canonical, const struct text *texts, size_t n)
{
    canonical_number(canonical, n);
    for (size_t i = 0; i < n; i++)
        canonical_text(canonical, texts[i]);
}

/* 16-bit positions on the stack: a key can then never fail for want of memory. */
static void put_headers(struct canonical *canonical, const struct key_part *headers, size_t n)
{
    uint16_t order[LIMIT_HEADERS];
    _Static_assert(LIMIT_HEADERS <= UINT16_MAX, "positions of headers need more than 16 bits");

    if (n > LIMIT_HEADERS)
        abort();
    canonical_number(canonical, n);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint16_t)i;
    if (n > 1)
        qsort_r(order, n, sizeof order[0], compare_parts, (void *)(uintptr_t)headers);
    for (size_t i = 0; i < n; i++)
        put_part(canonical, &headers[order[i]]);
}

void kernel_key(const struct key_input *input, uint8_t ret[KEY_SIZE])
{
    struct canonical canonical;

    canonical_init(&canonical, TAG);
    canonical_digest(&canonical, input->build);
    canonical_text(&canonical, input->target);
    canonical_byte(&canonical, (uint8_t)input->image_kind);
    canonical_byte(&canonical, (uint8_t)input->index_type);
    canonical_byte(&canonical, input->structured ? 1 : 0);
    put_texts(&canonical, input->args, input->n_args);
    canonical_number(&canonical, input->n_modules);
    for (size_t i = 0; i < input->n_modules; i++)
        put_part(&canonical, &input->modules[i]);
    put_headers(&canonical, input->headers, input->n_headers);
    put_texts(&canonical, input->entries, input->n_entries);
    canonical_number(&canonical, input->n_renamed);
    canonical_text(&canonical, input->code);
    canonical_finish(&canonical, ret);
}

void digest_of(const void *bytes, size_t size, uint8_t ret[DIGEST_SIZE])
{
    crypto_generichash(ret, DIGEST_SIZE, bytes, size, NULL, 0);
}

void key_to_hex(const uint8_t key[KEY_SIZE], char ret[KEY_HEX])
{
    sodium_bin2hex(ret, KEY_HEX, key, KEY_SIZE);
}

int key_from_hex(const char *hex, uint8_t ret[KEY_SIZE])
{
    uint8_t key[KEY_SIZE];
    size_t size;

    if (strnlen(hex, KEY_HEX) != 2 * KEY_SIZE ||
        sodium_hex2bin(key, sizeof key, hex, 2 * KEY_SIZE, NULL, &size, NULL) || size != KEY_SIZE)
        return -1;
    memcpy(ret, key, KEY_SIZE);
    return 0;
}
