#include "daemon/compile/compilers.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/require.h"

#define MIN_BUILD_DIGITS 8
#define VERSION_ROOM 32

/* ---- life ---- */

static void on_pool_facts(void *owner)
{
    struct compilers *compilers = ((struct compiler_slot *)owner)->compilers;
    compilers->on_facts(compilers->owner);
}

static int add(struct compilers *compilers, uv_loop_t *loop, struct pool_options options, enum compiler_kind kind,
               const char *library, struct error *error)
{
    size_t at = compilers->n;
    require(at < COMPILERS_MAX);
    options.kind = kind;
    options.nvrtc = library;
    options.on_demand = kind == COMPILER_TOOLKIT;
    compilers->slots[at] = (struct compiler_slot){compilers, kind};
    if (pool_create(loop, &options, on_pool_facts, &compilers->slots[at], &compilers->pools[at], error) < 0)
        return -1;
    compilers->n++;
    return 0;
}

int compilers_create(struct compilers *compilers, uv_loop_t *loop, const struct pool_options *options,
                     const char *const *libraries, size_t n_libraries, void (*on_facts)(void *owner), void *owner,
                     struct error *error)
{
    *compilers = (struct compilers){.on_facts = on_facts, .owner = owner};
    for (size_t i = 0; i < (n_libraries ? n_libraries : 1); i++) {
        const char *library = n_libraries ? libraries[i] : NULL;
        if (add(compilers, loop, *options, COMPILER_NVRTC, library, error) < 0 ||
            add(compilers, loop, *options, COMPILER_TOOLKIT, library, error) < 0)
            return -1;
    }
    return add(compilers, loop, *options, COMPILER_HOST, NULL, error);
}

bool compilers_are_closed(const struct compilers *compilers)
{
    for (size_t i = 0; i < compilers->n; i++) {
        if (compilers->pools[i])
            return false;
    }
    return true;
}

static void on_pool_closed(void *owner)
{
    struct compiler_slot *slot = owner;
    struct compilers *compilers = slot->compilers;
    compilers->pools[slot - compilers->slots] = NULL;
    if (compilers_are_closed(compilers))
        compilers->on_closed(compilers->owner);
}

void compilers_close(struct compilers *compilers, void (*on_closed)(void *owner))
{
    compilers->on_closed = on_closed;
    for (size_t i = 0; i < compilers->n; i++)
        pool_close(compilers->pools[i], on_pool_closed);
}

/* ---- choosing ---- */

static void write_version(const struct compiler_facts *facts, char ret[VERSION_ROOM])
{
    snprintf(ret, VERSION_ROOM, "%u.%u", facts->major, facts->minor);
}

static bool names_build(struct text wanted, const uint8_t build[DIGEST_SIZE])
{
    char hex[KEY_HEX];
    key_to_hex(build, hex);
    return wanted.size >= MIN_BUILD_DIGITS && wanted.size < sizeof hex && memcmp(wanted.at, hex, wanted.size) == 0;
}

static bool is_named(struct text wanted, const struct compiler_facts *facts)
{
    char version[VERSION_ROOM];
    write_version(facts, version);
    return text_is(wanted, version) || names_build(wanted, facts->build);
}

/* "13.0 (build 0123456789ab), 12.9 (build …)": what there is of a kind. */
static void write_list(const struct compilers *compilers, enum compiler_kind kind, char *ret, size_t room)
{
    size_t used = 0;
    ret[0] = '\0';
    for (size_t i = 0; i < compilers->n && used < room; i++) {
        const struct compiler_facts *facts = pool_facts(compilers->pools[i]);
        if (compilers->slots[i].kind != kind)
            continue;
        char version[VERSION_ROOM], hex[KEY_HEX];
        const char *comma = used ? ", " : "";
        if (facts) {
            write_version(facts, version);
            key_to_hex(facts->build, hex);
            used += (size_t)snprintf(ret + used, room - used, "%s%s (build %.12s)", comma, version, hex);
        } else {
            used += (size_t)snprintf(ret + used, room - used, "%sone that does not work", comma);
        }
    }
}

static enum compilers_choice refuse(const struct compilers *compilers, enum compiler_kind kind, enum status code,
                                    struct text wanted, const char *what, struct error *error)
{
    char list[320], shown[80];
    write_list(compilers, kind, list, sizeof list);
    error_set(error, code, "compiler: \"%s\" %s of what this daemon has of %s: %s",
              text_show(wanted, shown, sizeof shown), what, compiler_name(kind), list);
    return COMPILERS_NONE;
}

static enum compilers_choice choose_first(const struct compilers *compilers, enum compiler_kind kind, size_t *ret_at)
{
    for (size_t i = 0; i < compilers->n; i++) {
        if (compilers->slots[i].kind == kind) {
            *ret_at = i;
            return COMPILERS_CHOSEN;
        }
    }
    require(false); /* there is one of each kind */
    return COMPILERS_NONE;
}

enum compilers_choice compilers_choose(const struct compilers *compilers, enum compiler_kind kind, struct text wanted,
                                       size_t *ret_at, struct error *error)
{
    const struct compiler_facts *found = NULL;
    bool is_ambiguous = false, is_unknown = false, is_broken = false;
    size_t at = 0;
    if (!wanted.at)
        return choose_first(compilers, kind, ret_at);
    for (size_t i = 0; i < compilers->n; i++) {
        struct pool *pool = compilers->pools[i];
        const struct compiler_facts *facts = pool_facts(pool);
        if (compilers->slots[i].kind != kind)
            continue;
        if (!pool) {
            error_set(error, STATUS_SHUTTING_DOWN, "the daemon is shutting down");
            return COMPILERS_NONE;
        }
        if (!facts) {
            pool_want(pool);
            is_unknown |= pool_problem(pool) == NULL;
            is_broken |= pool_problem(pool) != NULL;
        } else if (is_named(wanted, facts)) {
            /* The same library in two places is one compiler. */
            is_ambiguous |= found && memcmp(found->build, facts->build, DIGEST_SIZE) != 0;
            at = found ? at : i;
            found = found ? found : facts;
        }
    }
    /* A version that a compiler which is not known yet may have, too, is not settled. */
    if (is_unknown)
        return COMPILERS_NOT_KNOWN_YET;
    if (is_ambiguous)
        return refuse(compilers, kind, STATUS_INVALID_FIELD, wanted, "is more than one", error);
    if (!found)
        return refuse(compilers, kind, is_broken ? STATUS_COMPILER_UNAVAILABLE : STATUS_INVALID_FIELD, wanted,
                      "is none", error);
    *ret_at = at;
    return COMPILERS_CHOSEN;
}
