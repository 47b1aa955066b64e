#include "daemon/key_differences.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compile/program_files.h"
#include "daemon/resolve/identifiers.h"
#include "preamble/preamble.h"

#define SHOWN 1024
#define SHORT_HEX 16

static bool is_same(struct text a, struct text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

static struct text copy(msgpack_zone *zone, struct text text)
{
    size_t size = text.size < SHOWN ? text.size : SHOWN;
    /* Not within a character. */
    while (size < text.size && size > 0 && ((unsigned char)text.at[size] & 0xc0) == 0x80)
        size--;
    char *to = text.at ? msgpack_zone_malloc(zone, size + 1) : NULL;
    if (!to)
        return (struct text){0};
    memcpy(to, text.at, size);
    to[size] = '\0';
    return (struct text){to, size};
}

static void add(struct key_differences *differences, struct text field, struct text wanted, struct text stored)
{
    if (differences->n < KEY_DIFFERENCES) {
        struct difference *difference = &differences->at[differences->n];
        *difference = (struct difference){copy(differences->zone, field), copy(differences->zone, wanted),
                                          copy(differences->zone, stored)};
        if (!difference->field.at)
            return; /* no memory */
    }
    differences->n++;
}

static void compare(struct key_differences *differences, const char *field, struct text wanted, struct text stored)
{
    if (!is_same(wanted, stored))
        add(differences, text_of(field), wanted, stored);
}

static struct text short_hex(const uint8_t digest[DIGEST_SIZE], char ret[KEY_HEX])
{
    key_to_hex(digest, ret);
    return (struct text){ret, SHORT_HEX};
}

static void compare_digests(struct key_differences *differences, struct text field, const uint8_t *wanted,
                            const uint8_t *stored)
{
    char left[KEY_HEX], right[KEY_HEX];
    if (wanted && stored && memcmp(wanted, stored, DIGEST_SIZE) == 0)
        return;
    add(differences, field, wanted ? short_hex(wanted, left) : (struct text){0},
        stored ? short_hex(stored, right) : (struct text){0});
}

/* ---- lists ---- */

static bool has_text(const struct text *texts, size_t n, struct text text)
{
    for (size_t i = 0; i < n; i++)
        if (is_same(texts[i], text))
            return true;
    return false;
}

/* The record has all arguments, the key some of them: those that the plan has and does not key are left out. */
static void compare_args(const struct resolved *resolved, const struct kernel *kernel,
                         struct key_differences *differences)
{
    static const struct text field = TEXT_OF("args"), absent;
    for (size_t i = 0; i < resolved->n_key_args; i++)
        if (!has_text(kernel->args, kernel->n_args, resolved->key_args[i]))
            add(differences, field, resolved->key_args[i], absent);
    for (size_t i = 0; i < kernel->n_args; i++)
        if (!has_text(resolved->args, resolved->n_args, kernel->args[i]))
            add(differences, field, absent, kernel->args[i]);
}

/* The first line that is not the same. */
static struct text line_at(struct text text, size_t at)
{
    while (at > 0 && text.at[at - 1] != '\n')
        at--;
    const char *end = memchr(text.at + at, '\n', text.size - at);
    return (struct text){text.at + at, (end ? (size_t)(end - text.at) : text.size) - at};
}

static void compare_lines(struct key_differences *differences, const char *field, struct text wanted,
                          struct text stored)
{
    size_t at = 0;
    if (is_same(wanted, stored))
        return;
    while (at < wanted.size && at < stored.size && wanted.at[at] == stored.at[at])
        at++;
    add(differences, text_of(field), wanted.size ? line_at(wanted, at) : wanted,
        stored.size ? line_at(stored, at) : stored);
}

static void compare_modules(const struct resolved *resolved, const struct kernel *kernel,
                            struct key_differences *differences)
{
    static const struct text field = TEXT_OF("modules"), absent;
    const struct preamble_module *modules = preamble_modules();
    struct text names[PREAMBLE_MAX];
    uint8_t digest[DIGEST_SIZE];
    size_t before = differences->n;
    for (size_t i = 0; i < resolved->n_modules; i++) {
        names[i] = text_of(modules[resolved->modules[i]].name);
        if (!has_text(kernel->modules, kernel->n_modules, names[i]))
            add(differences, field, names[i], absent);
    }
    for (size_t i = 0; i < kernel->n_modules; i++)
        if (!has_text(names, resolved->n_modules, kernel->modules[i]))
            add(differences, field, absent, kernel->modules[i]);
    program_files_digest(resolved->program, digest);
    if (differences->n == before && kernel->has_preamble)
        compare_digests(differences, TEXT_OF("text of modules"), digest, kernel->preamble);
}

struct named_digest {
    struct text name;
    const uint8_t *digest;
};

static int compare_names(const void *a, const void *b)
{
    const struct named_digest *left = a, *right = b;
    return strcmp(left->name.at, right->name.at);
}

/* Both lists sorted, and walked together: there may be thousands. */
static void compare_headers(const struct plan *plan, const struct kernel *kernel, struct key_differences *differences)
{
    const struct fusion *fusion = plan->request.fusion;
    size_t n = fusion->n_headers, m = kernel->n_headers, i = 0, j = 0;
    struct named_digest *ours = calloc(n + 1, sizeof *ours), *theirs = calloc(m + 1, sizeof *theirs);
    for (size_t k = 0; ours && k < n; k++)
        ours[k] = (struct named_digest){fusion->headers[k].name, plan->header_digests[k]};
    for (size_t k = 0; theirs && k < m; k++)
        theirs[k] = (struct named_digest){kernel->headers[k].name, kernel->headers[k].digest};
    if (ours && theirs) {
        qsort(ours, n, sizeof *ours, compare_names);
        qsort(theirs, m, sizeof *theirs, compare_names);
    }
    while (ours && theirs && (i < n || j < m)) {
        int order = i == n ? 1 : j == m ? -1 : compare_names(&ours[i], &theirs[j]);
        char field[LIMIT_NAME];
        struct text name = order <= 0 ? ours[i].name : theirs[j].name;
        snprintf(field, sizeof field, "header %.500s", name.at);
        compare_digests(differences, text_of(field), order <= 0 ? ours[i].digest : NULL,
                        order >= 0 ? theirs[j].digest : NULL);
        i += order <= 0;
        j += order >= 0;
    }
    free(ours);
    free(theirs);
}

/* ---- entries ---- */

/* An entry's name with a number for every identifier that is renamed: what the key has of it. */
static void write_entry(struct text entry, const struct text *renamed, size_t n_renamed, char ret[SHOWN])
{
    size_t size = 0;
    for (size_t at = 0; at < entry.size && size < SHOWN - 16;) {
        size_t end = at, which = n_renamed;
        while (end < entry.size && is_identifier((struct text){entry.at + at, end + 1 - at}))
            end++;
        for (size_t i = 0; end > at && i < n_renamed; i++)
            if (is_same(renamed[i], (struct text){entry.at + at, end - at}))
                which = i;
        if (which < n_renamed) {
            size += (size_t)snprintf(ret + size, SHOWN - size, "(name %zu)", which);
        } else {
            size_t n = end > at ? end - at : 1;
            n = n < SHOWN - 16 - size ? n : SHOWN - 16 - size;
            memcpy(ret + size, entry.at + at, n);
            size += n;
        }
        at = end > at ? end : at + 1;
    }
    ret[size] = '\0';
}

static void compare_entries(const struct plan *plan, const struct kernel *kernel, struct key_differences *differences)
{
    const struct fusion *fusion = plan->request.fusion;
    struct entry_names names = plan->resolved.entry_names;
    struct text renamed[LIMIT_ENTRIES];
    char wanted[SHOWN], stored[SHOWN];
    size_t n_renamed = entry_names_count(names);
    for (size_t i = 0; i < n_renamed && i < LIMIT_ENTRIES; i++)
        renamed[i] = entry_name(names, i);
    for (size_t i = 0; i < fusion->n_entries || i < kernel->n_entries; i++) {
        wanted[0] = stored[0] = '\0';
        if (i < fusion->n_entries)
            write_entry(fusion->entries[i], renamed, n_renamed, wanted);
        if (i < kernel->n_entries)
            write_entry(kernel->entries[i].name, kernel->renamed, kernel->n_renamed, stored);
        compare(differences, "entry", text_of(wanted[0] ? wanted : NULL), text_of(stored[0] ? stored : NULL));
    }
    if (n_renamed != kernel->n_renamed) {
        snprintf(wanted, sizeof wanted, "%zu", n_renamed);
        snprintf(stored, sizeof stored, "%zu", kernel->n_renamed);
        compare(differences, "names out of the key", text_of(wanted), text_of(stored));
    }
}

/* ---- all ---- */

static struct text yes_or_no(bool yes)
{
    return yes ? TEXT_OF("yes") : TEXT_OF("no");
}

static void compare_build(const struct plan *plan, const struct kernel *kernel, struct key_differences *differences)
{
    char name[80], hex[KEY_HEX], wanted[160], stored[160 + LIMIT_NAME];
    if (memcmp(plan->build, kernel->build, DIGEST_SIZE) == 0)
        return;
    snprintf(name, sizeof name, "%s %u.%u", compiler_name(plan->compiler), plan->compiler_major, plan->compiler_minor);
    key_to_hex(plan->build, hex);
    snprintf(wanted, sizeof wanted, "%s, build %.*s", name, SHORT_HEX, hex);
    key_to_hex(kernel->build, hex);
    snprintf(stored, sizeof stored, "%s, build %.*s", kernel->compiler.at, SHORT_HEX, hex);
    compare(differences, "compiler", text_of(wanted), text_of(stored));
}

void key_differences_find(const struct plan *plan, const struct kernels_db_near *near, struct key_differences *ret)
{
    const struct resolved *resolved = &plan->resolved;
    const struct kernel *kernel = &near->kernel;
    struct text program = resolved->program;
    size_t behind = resolved->code_at + resolved->code.size;
    uint8_t code[DIGEST_SIZE];
    compare_build(plan, kernel, ret);
    compare(ret, "target", resolved->target, kernel->target);
    compare(ret, "image kind", text_of(image_kind_word((int)resolved->image_kind)),
            text_of(image_kind_word((int)kernel->image_kind)));
    compare(ret, "index type", text_of(index_type_word((int)resolved->index_type)),
            text_of(index_type_word((int)kernel->index_type)));
    compare(ret, "structured", yes_or_no(plan->request.fusion->structured), yes_or_no(kernel->structured));
    compare_args(resolved, kernel, ret);
    if (kernel->before.at)
        compare_lines(ret, "before the code", (struct text){program.at, resolved->code_at}, kernel->before);
    if (kernel->behind.at)
        compare_lines(ret, "behind the code", (struct text){program.at + behind, program.size - behind},
                      kernel->behind);
    compare_modules(resolved, kernel, ret);
    compare_headers(plan, kernel, ret);
    compare_entries(plan, kernel, ret);
    digest_of(resolved->code.at, resolved->code.size, code);
    compare_digests(ret, TEXT_OF("code"), code, near->has_code ? near->code : NULL);
}
