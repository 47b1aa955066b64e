#include "kernels_db/kernel_row.h"

#include <stdlib.h>
#include <string.h>

#include "kernels_db/canonical.h"

#define ROW_TAG "fusiond-db-row-1"
#define HEADER_SET_TAG "fusiond-hdrset-1"

/* ---- hashes ---- */

static void put_number(struct canonical *canonical, struct column_number number)
{
    canonical_byte(canonical, number.has);
    canonical_number(canonical, number.has ? (uint64_t)number.value : 0);
}

/* Absent and empty are different here, as they are in the columns. */
static void put_bytes(struct canonical *canonical, struct bytes bytes)
{
    canonical_byte(canonical, bytes.at != NULL);
    canonical_bytes(canonical, bytes);
}

static void put_text(struct canonical *canonical, struct text text)
{
    put_bytes(canonical, (struct bytes){(const uint8_t *)text.at, text.size});
}

void kernel_row_hash(const struct kernel_row *row, uint8_t ret[DIGEST_SIZE])
{
    struct canonical canonical;

    canonical_init(&canonical, ROW_TAG);
    put_text(&canonical, row->name_space);
    put_bytes(&canonical, row->key);
    put_text(&canonical, row->label);
    put_text(&canonical, row->target);
    put_text(&canonical, row->entry);
    put_number(&canonical, row->index_type);
    put_number(&canonical, row->max_registers);
    put_number(&canonical, row->image_size);
    put_number(&canonical, row->created);
    put_number(&canonical, row->compile_ns);
    put_bytes(&canonical, row->code);
    put_bytes(&canonical, row->log);
    put_bytes(&canonical, row->header_set);
    put_bytes(&canonical, row->meta);
    put_bytes(&canonical, row->image);
    put_bytes(&canonical, row->ptx);
    canonical_finish(&canonical, ret);
}

void kernel_header_set(const struct kernel *kernel, uint8_t ret[DIGEST_SIZE])
{
    struct canonical canonical;

    canonical_init(&canonical, HEADER_SET_TAG);
    canonical_number(&canonical, kernel->n_headers);
    for (size_t i = 0; i < kernel->n_headers; i++)
        canonical_digest(&canonical, kernel->headers[i].digest);
    canonical_finish(&canonical, ret);
}

/* ---- from the kernel ---- */

struct kernel kernel_meta(const struct kernel *kernel)
{
    struct kernel meta = *kernel;
    meta.image = meta.ptx = (struct bytes){0};
    meta.code = meta.log = (struct text){0};
    meta.image_fd = meta.ptx_fd = 0;
    meta.has_image_fd = meta.has_ptx_fd = false;
    return meta;
}

uint64_t kernel_limit(const char *field)
{
    for (size_t i = 0; i < kernel_type.n_fields; i++)
        if (!strcmp(kernel_type.fields[i].name, field))
            return kernel_type.fields[i].max;
    abort(); /* the caller names a field that messages.def does not have */
}

/* The time of the phase "compile"; without one, the sum of all phases. */
static struct column_number compile_time(const struct kernel *kernel)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < kernel->n_phases; i++) {
        const struct phase *phase = &kernel->phases[i];
        if (text_is(phase->name, "compile"))
            return (struct column_number){(int64_t)phase->ns, true};
        if (__builtin_add_overflow(sum, phase->ns, &sum))
            sum = UINT64_MAX;
    }
    return (struct column_number){(int64_t)sum, kernel->n_phases > 0};
}

void kernel_row_fill(struct kernel_row *row, const struct kernel *kernel)
{
    row->key = (struct bytes){kernel->key, DIGEST_SIZE};
    row->label = kernel->label;
    row->target = kernel->target;
    row->entry = kernel->n_entries ? kernel->entries[0].name : (struct text){0};
    row->index_type = (struct column_number){kernel->index_type, kernel->index_type != index_type_absent};
    row->max_registers = (struct column_number){(int64_t)kernel->max_registers, kernel->has_max_registers};
    row->image_size = (struct column_number){(int64_t)kernel->image_size, true};
    row->created = (struct column_number){(int64_t)kernel->created_unix_s, true};
    row->compile_ns = compile_time(kernel);
    row->image = kernel->image;
    row->ptx = kernel->ptx;
}

/* ---- checks ---- */

static int check_size(size_t size, const char *field, struct error *error)
{
    if (size > kernel_limit(field))
        return error_set(error, STATUS_INTERNAL, "a kernel to be stored: %s: %zu bytes are above the limit of %llu",
                         field, size, (unsigned long long)kernel_limit(field));
    return 0;
}

static int check_text(struct text text, const char *field, struct error *error)
{
    if (text.at && text.size && memchr(text.at, '\0', text.size))
        return error_set(error, STATUS_INTERNAL, "a kernel to be stored: %s: a NUL byte in %zu bytes", field,
                         text.size);
    return check_size(text.at ? text.size : 0, field, error);
}

int kernel_row_check(const struct kernel *kernel, struct error *error)
{
    if (!kernel->image.at)
        return error_set(error, STATUS_INTERNAL, "a kernel to be stored: image: absent");
    if (kernel->image.size != kernel->image_size)
        return error_set(error, STATUS_INTERNAL, "a kernel to be stored: image: %zu bytes, image_size says %llu",
                         kernel->image.size, (unsigned long long)kernel->image_size);
    if (kernel->ptx.at && kernel->has_ptx_size && kernel->ptx.size != kernel->ptx_size)
        return error_set(error, STATUS_INTERNAL, "a kernel to be stored: ptx: %zu bytes, ptx_size says %llu",
                         kernel->ptx.size, (unsigned long long)kernel->ptx_size);
    if (check_size(kernel->image.size, "image", error) < 0 ||
        check_size(kernel->ptx.at ? kernel->ptx.size : 0, "ptx", error) < 0 ||
        check_text(kernel->code, "code", error) < 0 || check_text(kernel->log, "log", error) < 0)
        return -1;
    return 0;
}
