/* The preamble: device modules that are put in front of a fusion's code, embedded in the executables that need them. */
#ifndef PREAMBLE_PREAMBLE_H
#define PREAMBLE_PREAMBLE_H

#include <stddef.h>
#include <stdint.h>

/* One module. Its include name is "fusiond/<name>.cuh". */
struct preamble_module {
    const char *name;
    const char *include; /* "fusiond/warp.cuh" */
    const char *text;    /* NUL-terminated */
    size_t size;
    const char *const *provides; /* identifiers that it defines; ends with NULL */
    const char *const *needs;    /* names of other modules; ends with NULL */
    uint8_t digest[32];          /* BLAKE2b-256 of text; filled by preamble_modules() */
};

/* All modules, each after those that it needs. The count is preamble_count. */
const struct preamble_module *preamble_modules(void);
extern const size_t preamble_count;

#define PREAMBLE_MAX 64

/* The modules that `code` needs: those that provide one of its identifiers (comments, strings and character literals
 * aside), and what these need in turn. Writes their positions in preamble_modules(), ascending; returns how many.
 * The two index modules (index_int32, index_int64) are left out: the caller puts exactly one in front when the
 * result is not empty (it never is when the code names the index type, since both need a module). Linear in `size`,
 * allocates nothing. */
size_t preamble_closure(const char *code, size_t size, uint8_t ret[PREAMBLE_MAX]);

/* Position of a module by name; -1 when there is none. */
int preamble_find(const char *name);

#endif
