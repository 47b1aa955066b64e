/*
 * The compilers that the daemon has, each behind a pool of its own: NVRTC libraries, every one without and with the
 * headers of its toolkit, and the C++ compiler of the host device.
 *
 * The first library is the default. A request may name another one by its version or its build; one that is not there
 * is an error, never a reason to take another.
 */
#ifndef DAEMON_COMPILE_COMPILERS_H
#define DAEMON_COMPILE_COMPILERS_H

#include "daemon/compile/pool.h"

#define COMPILERS_LIBRARIES 7
#define COMPILERS_MAX (2 * COMPILERS_LIBRARIES + 1) /* below the limit of the list in a hello */

struct compilers;

struct compiler_slot {
    struct compilers *compilers;
    enum compiler_kind kind;
};

struct compilers {
    size_t n;
    struct pool *pools[COMPILERS_MAX]; /* NULL once closed */
    struct compiler_slot slots[COMPILERS_MAX];
    void (*on_facts)(void *owner);
    void (*on_closed)(void *owner);
    void *owner;
};

/* A pool for each. `options` are those of all; kind, library and on_demand are filled in. `libraries` are paths of
 * libnvrtc; with none, one is looked for. `on_facts` is called whenever what is known of one has changed. After an
 * error the process is to end. */
int compilers_create(struct compilers *compilers, uv_loop_t *loop, const struct pool_options *options,
                     const char *const *libraries, size_t n_libraries, void (*on_facts)(void *owner), void *owner,
                     struct error *error);

/* Close every pool; `on_closed` is called once, later. */
void compilers_close(struct compilers *compilers, void (*on_closed)(void *owner));
bool compilers_are_closed(const struct compilers *compilers);

enum compilers_choice {
    COMPILERS_CHOSEN,
    COMPILERS_NOT_KNOWN_YET, /* a probe is under way that may find it: on_facts tells */
    COMPILERS_NONE,          /* with INVALID_FIELD, COMPILER_UNAVAILABLE or SHUTTING_DOWN */
};

/* The compiler of that kind which `wanted` names: "13.0", or at least 8 digits of the build in hex; absent: the first.
 * *ret_at is its place in `pools`; it may be one that does not work. */
enum compilers_choice compilers_choose(const struct compilers *compilers, enum compiler_kind kind, struct text wanted,
                                       size_t *ret_at, struct error *error);

#endif
