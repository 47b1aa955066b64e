#include "client/fusionctl/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An .npy header, as text: NumPy itself pads it to a multiple of 64. */
#define MAX_HEADER 65535u

/* ---- the bytes ---- */

static int read_all(int fd, const char *path, char *bytes, size_t size, struct error *error)
{
    while (size > 0) {
        ssize_t n = read(fd, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(error, STATUS_INVALID_FILE, errno, "%s", path);
        if (n == 0)
            return error_set(error, STATUS_INVALID_FILE, "%s: it became shorter while it was read", path);
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* A whole regular file. From malloc. */
static int read_file(const char *path, char **ret, size_t *ret_size, struct error *error)
{
    struct stat status;
    char *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set_errno(error, STATUS_INVALID_FILE, errno, "%s", path);
    int result = -1;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        error_set(error, STATUS_INVALID_FILE, "%s: not a regular file", path);
    else if (!(bytes = malloc((size_t)status.st_size + 1)))
        error_set(error, STATUS_OUT_OF_MEMORY, "%s: no memory for %lld bytes", path, (long long)status.st_size);
    else
        result = read_all(fd, path, bytes, (size_t)status.st_size, error);
    close(fd);
    if (result < 0) {
        free(bytes);
        return -1;
    }
    *ret = bytes;
    *ret_size = (size_t)status.st_size;
    return 0;
}

/* ---- the header of an .npy file ----
 * A magic, a version, the length of a text, and the text: a Python dictionary as
 * {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } with its keys in any order. */

struct npy {
    char descr[16];
    bool fortran_order;
    unsigned rank;
    int64_t sizes[LIMIT_RANK];
    bool has_descr, has_order, has_shape;
};

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " \t\n\r");
}

/* After spaces, step over one character; NULL when another one stands there. */
static const char *step_over(const char *at, char c)
{
    at = skip_spaces(at);
    return *at == c ? at + 1 : NULL;
}

/* A string in either kind of quotes, without escapes. NULL when it is something else, or too long. */
static const char *take_string(const char *at, char *ret, size_t room)
{
    at = skip_spaces(at);
    char quote = *at;
    if (quote != '\'' && quote != '"')
        return NULL;
    const char *end = strchr(at + 1, quote);
    size_t size = end ? (size_t)(end - at - 1) : room;
    if (size >= room)
        return NULL;
    memcpy(ret, at + 1, size);
    ret[size] = '\0';
    return end + 1;
}

static const char *take_bool(const char *at, bool *ret)
{
    at = skip_spaces(at);
    *ret = strncmp(at, "True", 4) == 0;
    return *ret ? at + 4 : strncmp(at, "False", 5) == 0 ? at + 5 : NULL;
}

/* (), (3,), (3, 4) */
static const char *take_shape(const char *at, struct npy *npy)
{
    at = step_over(at, '(');
    for (npy->rank = 0; at && !step_over(at, ')'); npy->rank++) {
        char *end;
        at = skip_spaces(at);
        errno = 0;
        long long size = strtoll(at, &end, 10);
        if (end == at || errno || size < 0 || npy->rank == LIMIT_RANK)
            return NULL;
        npy->sizes[npy->rank] = size;
        at = step_over(end, ',');
        if (!at && !step_over(end, ')'))
            return NULL;
        at = at ? at : end;
    }
    return at ? step_over(at, ')') : NULL;
}

static bool parse_header(const char *at, struct npy *npy)
{
    char key[32];
    *npy = (struct npy){0};
    at = step_over(at, '{');
    while (at && !step_over(at, '}')) {
        at = take_string(at, key, sizeof key);
        at = at ? step_over(at, ':') : NULL;
        if (!at)
            return false;
        if (strcmp(key, "descr") == 0) {
            npy->has_descr = true;
            at = take_string(at, npy->descr, sizeof npy->descr);
        } else if (strcmp(key, "fortran_order") == 0) {
            npy->has_order = true;
            at = take_bool(at, &npy->fortran_order);
        } else if (strcmp(key, "shape") == 0) {
            npy->has_shape = true;
            at = take_shape(at, npy);
        } else {
            return false;
        }
        if (at && !step_over(at, '}'))
            at = step_over(at, ',');
    }
    return at && npy->has_descr && npy->has_order && npy->has_shape;
}

/* The type of "<f4"; absent for what is none of ours. */
static enum dtype dtype_of(const char *descr, enum dtype raw)
{
    static const struct {
        const char *code;
        enum dtype dtype;
    } codes[] = {
        {"b1", DTYPE_BOOL},      {"i1", DTYPE_INT8},        {"i2", DTYPE_INT16},   {"i4", DTYPE_INT32},
        {"i8", DTYPE_INT64},     {"u1", DTYPE_UINT8},       {"u2", DTYPE_UINT16},  {"u4", DTYPE_UINT32},
        {"u8", DTYPE_UINT64},    {"f2", DTYPE_FLOAT16},     {"f4", DTYPE_FLOAT32}, {"f8", DTYPE_FLOAT64},
        {"c8", DTYPE_COMPLEX64}, {"c16", DTYPE_COMPLEX128},
    };
    if (*descr != '<' && *descr != '|' && *descr != '=')
        return dtype_absent;
    if (descr[1] == 'V')
        return strtoul(descr + 2, NULL, 10) == dtype_size(raw) ? raw : dtype_absent;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strcmp(descr + 1, codes[i].code) == 0)
            return codes[i].dtype;
    }
    return dtype_absent;
}

/* Where the elements begin; 0 when the file does not begin as it must. The text is ended with a NUL in place. */
static size_t find_elements(char *bytes, size_t size, struct npy *ret)
{
    const unsigned char *head = (const unsigned char *)bytes;
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
        return 0;
    size_t at = head[6] == 1 ? 10 : 12;
    size_t length = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1)
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (length == 0 || length > MAX_HEADER || length > size - at)
        return 0;
    /* The last byte is a newline. */
    bytes[at + length - 1] = '\0';
    return parse_header(bytes + at, ret) ? at + length : 0;
}

static int check_shape(const char *path, const struct npy *npy, const int64_t *sizes, unsigned rank,
                       struct error *error)
{
    if (npy->rank != rank)
        return error_set(error, STATUS_INVALID_FILE, "%s: rank %u; the tensor has %u", path, npy->rank, rank);
    for (unsigned i = 0; i < rank; i++) {
        if (npy->sizes[i] != sizes[i])
            return error_set(error, STATUS_INVALID_FILE, "%s: size[%u] is %lld; the tensor's is %lld", path, i,
                             (long long)npy->sizes[i], (long long)sizes[i]);
    }
    return 0;
}

static int open_npy(const char *path, char *bytes, size_t size, enum dtype raw, const int64_t *sizes, unsigned rank,
                    enum dtype *ret_dtype, size_t *ret_at, struct error *error)
{
    struct npy npy;
    size_t at = find_elements(bytes, size, &npy);
    if (at == 0)
        return error_set(error, STATUS_INVALID_FILE, "%s: not an .npy file of version 1 to 3", path);
    if (npy.fortran_order)
        return error_set(error, STATUS_INVALID_FILE, "%s: it is in Fortran order; save a copy in C order", path);
    enum dtype dtype = dtype_of(npy.descr, raw);
    if (dtype == dtype_absent)
        return error_set(error, STATUS_INVALID_FILE, "%s: elements of type \"%s\" cannot be read", path, npy.descr);
    if (check_shape(path, &npy, sizes, rank, error) < 0)
        return -1;
    *ret_dtype = dtype;
    *ret_at = at;
    return 0;
}

/* ---- both ---- */

int data_file_read(const char *path, enum dtype dtype, const int64_t *sizes, unsigned rank, struct data_file *ret,
                   struct error *error)
{
    char *bytes = NULL;
    size_t size = 0, at = 0;
    size_t length = strlen(path);
    uint64_t wanted;
    if (read_file(path, &bytes, &size, error) < 0)
        return -1;
    bool is_npy = length > 4 && strcmp(path + length - 4, ".npy") == 0;
    if (is_npy && open_npy(path, bytes, size, dtype, sizes, rank, &dtype, &at, error) < 0)
        goto fail;
    wanted = dtype_size(dtype);
    for (unsigned i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(wanted, (uint64_t)sizes[i], &wanted))
            wanted = UINT64_MAX;
    }
    if (size - at != wanted) {
        error_set(error, STATUS_INVALID_FILE, "%s: %zu bytes of elements; a tensor of these sizes in %s has %llu", path,
                  size - at, dtype_word((int)dtype), (unsigned long long)wanted);
        goto fail;
    }
    /* Elements are read as what they are, so they stand where malloc would put them. */
    if (at % 16 != 0) {
        memmove(bytes, bytes + at, size - at);
        at = 0;
    }
    *ret = (struct data_file){.bytes = bytes, .elements = bytes + at, .dtype = dtype};
    return 0;
fail:
    free(bytes);
    return -1;
}

void data_file_finish(struct data_file *file)
{
    free(file->bytes);
    *file = (struct data_file){0};
}
