#include "daemon/resolve/placeholder.h"

#include <string.h>

#include "daemon/resolve/candidates.h"
#include "daemon/resolve/sightings.h"
#include "daemon/resolve/zone.h"

/* ---- replacing ---- */

static char *append(char *at, const char *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

static char *append_placeholder(char *at, const struct candidate *candidate)
{
    char placeholder[PLACEHOLDER_SIZE + 1];
    placeholder_write(candidate->index, placeholder);
    return append(at, placeholder, PLACEHOLDER_SIZE);
}

/* The first word of a candidate that is replaced. */
static const char *next_word(struct candidates *candidates, const char *at, const char *end, struct candidate **ret)
{
    const char *first = NULL;
    for (size_t j = 0; j < candidates->n; j++) {
        struct candidate *candidate = &candidates->at[j];
        const char *word = candidate->why.at ? NULL : word_find(at, first ? first : end, candidate->name, false);
        if (word && (!first || word < first)) {
            first = word;
            *ret = candidate;
        }
    }
    return first;
}

/* Blanks and comments. */
static char *copy_comments(struct candidates *candidates, char *to, const char *at, const char *end)
{
    struct candidate *candidate = NULL;
    const char *word;
    while (at < end && (word = next_word(candidates, at, end, &candidate))) {
        to = append(to, at, (size_t)(word - at));
        to = append_placeholder(to, candidate);
        at = word + candidate->name.size;
    }
    return append(to, at, (size_t)(end - at));
}

static int replace_in_code(struct candidates *candidates, struct renaming *ret, struct error *error)
{
    struct text code = candidates->fusion->code;
    size_t size = code.size;
    for (size_t j = 0; j < candidates->n; j++)
        size += (candidates->at[j].declared + candidates->at[j].comments) * PLACEHOLDER_SIZE;
    char *copy = zone_array(candidates->zone, size + 1, 1, error), *to = copy;
    if (!copy)
        return -1;
    struct tokens tokens = tokens_of(code);
    struct token token;
    const char *at = code.at;
    while (tokens_next(&tokens, &token)) {
        const struct candidate *candidate = candidates_find(candidates, &token);
        to = copy_comments(candidates, to, at, token.text.at);
        if (candidate && !candidate->why.at)
            to = append_placeholder(to, candidate);
        else
            to = append(to, token.text.at, token.text.size);
        at = token.text.at + token.text.size;
    }
    to = copy_comments(candidates, to, at, code.at + code.size);
    ret->code = (struct text){copy, (size_t)(to - copy)};
    return 0;
}

static int replace_in_entries(struct candidates *candidates, struct renaming *ret, struct error *error)
{
    const struct fusion *fusion = candidates->fusion;
    char placeholder[PLACEHOLDER_SIZE + 1];
    for (size_t i = 0; i < fusion->n_entries; i++) {
        struct text entry = fusion->entries[i], name = entry_identifier(entry);
        const struct token token = {.kind = TOKEN_IDENTIFIER, .text = name};
        const struct candidate *candidate = candidates_find(candidates, &token);
        if (candidate->why.at)
            continue;
        placeholder_write(candidate->index, placeholder);
        const char *behind = name.at + name.size;
        if (zone_format(candidates->zone, &ret->entries[i], error, "%.*s%s%.*s", (int)(name.at - entry.at), entry.at,
                        placeholder, (int)(entry.at + entry.size - behind), behind) < 0)
            return -1;
    }
    return 0;
}

static int collect_names(struct candidates *candidates, struct renaming *ret, struct error *error)
{
    struct text *names = zone_array(candidates->zone, candidates->n, sizeof *names, error);
    size_t n = 0;
    if (!names)
        return -1;
    ret->kept = candidates->why_all;
    for (size_t j = 0; j < candidates->n; j++) {
        struct candidate *candidate = &candidates->at[j];
        if (candidates->why_all.at)
            candidate->why = candidates->why_all;
        if (candidate->why.at) {
            if (!ret->kept.at)
                ret->kept = candidate->why;
            continue;
        }
        candidate->index = n;
        names[n++] = candidate->name;
    }
    return entry_names_pack(names, n, candidates->zone, &ret->names, error);
}

static int check_settings(struct candidates *candidates, const char *keep, struct error *error)
{
    const struct compile_options *compile = candidates->fusion->compile;
    if (keep)
        return candidates_keep_all(candidates, error, "%s", keep);
    if (compile && compile->debug)
        return candidates_keep_all(candidates, error,
                                   "compile.debug: a debugger's tables hold names where no other fits");
    if (compile && compile->asserts)
        return candidates_keep_all(candidates, error, "compile.asserts: an assertion that fails tells a kernel's name");
    return 0;
}

static int decide(struct candidates *candidates, const char *keep, struct error *error)
{
    if (check_settings(candidates, keep, error) < 0)
        return -1;
    if (candidates->why_all.at)
        return 0;
    return candidates_collect(candidates, error) < 0 || sightings_look(candidates, error) < 0 ? -1 : 0;
}

int placeholder_rename(const struct fusion *fusion, const char *keep, msgpack_zone *zone, struct renaming *ret,
                       struct error *error)
{
    struct candidates candidates = {.fusion = fusion, .zone = zone};
    struct renaming renaming = {.code = fusion->code};
    renaming.entries = zone_array(zone, fusion->n_entries, sizeof *renaming.entries, error);
    if (!renaming.entries)
        return -1;
    memcpy(renaming.entries, fusion->entries, fusion->n_entries * sizeof *renaming.entries);
    if (decide(&candidates, keep, error) < 0 || collect_names(&candidates, &renaming, error) < 0)
        return -1;
    if (renaming.names.size &&
        (replace_in_code(&candidates, &renaming, error) < 0 || replace_in_entries(&candidates, &renaming, error) < 0))
        return -1;
    if (renaming.code.size > LIMIT_INLINE) {
        /* Nothing longer can be stored as a kernel's code. */
        renaming = (struct renaming){.code = fusion->code, .entries = renaming.entries};
        memcpy(renaming.entries, fusion->entries, fusion->n_entries * sizeof *renaming.entries);
        renaming.kept = TEXT_OF("with placeholders the code would be longer than 1048576 bytes");
    }
    *ret = renaming;
    return 0;
}
