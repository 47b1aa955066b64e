#include "daemon/kernel_names.h"

#include <string.h>

#include "daemon/resolve/identifiers.h"
#include "daemon/resolve/zone.h"

static bool is_same(struct text a, struct text b)
{
    return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

int kernel_names_stored(const struct kernel *stored, msgpack_zone *zone, struct entry_names *ret, struct error *error)
{
    return entry_names_pack(stored->renamed, stored->n_renamed, zone, ret, error);
}

/* The position of an entry's identifier among those that placeholders stand for; n_renamed when it is none. */
static size_t find_renamed(const struct kernel *stored, struct text entry)
{
    struct text identifier = entry_identifier(entry);
    size_t j = 0;
    while (j < stored->n_renamed && !is_same(stored->renamed[j], identifier))
        j++;
    return j;
}

/* Another's name for the stored entry: what stands around it must be the same. absent when it is no such name. */
static struct text name_in(struct text stored, struct text entry)
{
    struct text ours = entry_identifier(stored), theirs = entry_identifier(entry);
    size_t before = (size_t)(ours.at - stored.at), behind = stored.size - before - ours.size;
    if (entry.size != before + theirs.size + behind || (size_t)(theirs.at - entry.at) != before ||
        memcmp(entry.at, stored.at, before) != 0 || memcmp(theirs.at + theirs.size, ours.at + ours.size, behind) != 0)
        return (struct text){0};
    return theirs;
}

static int refuse(size_t i, struct text given, struct text stored, struct error *error)
{
    char a[PRINTABLE], b[PRINTABLE];
    return error_set(error, STATUS_INVALID_FIELD, "entries[%zu]: \"%s\" is not \"%s\" under another name", i,
                     text_printable(given, a), text_printable(stored, b));
}

static int take_name(const struct kernel *stored, size_t i, struct text entry, struct text *names, struct error *error)
{
    struct text ours = stored->entries[i].name;
    size_t j = find_renamed(stored, ours);
    if (j == stored->n_renamed)
        return is_same(ours, entry) ? 0 : refuse(i, entry, ours, error);
    struct text name = name_in(ours, entry);
    if (!name.at || name.size > PLACEHOLDER_SIZE || !is_identifier(name) ||
        memmem(name.at, name.size, PLACEHOLDER_STEM, strlen(PLACEHOLDER_STEM)) ||
        (names[j].at && !is_same(names[j], name)))
        return refuse(i, entry, ours, error);
    for (size_t k = 0; k < stored->n_renamed; k++)
        if (k != j && names[k].at && is_same(names[k], name))
            return error_set(error, STATUS_INVALID_FIELD, "entries[%zu]: \"%.100s\" is the name of two kernels", i,
                             name.at);
    names[j] = name;
    return 0;
}

int kernel_names_of_entries(const struct kernel *stored, struct entry_names entries, msgpack_zone *zone,
                            struct entry_names *ret, struct error *error)
{
    size_t n = entry_names_count(entries);
    if (entries.size == 0)
        return kernel_names_stored(stored, zone, ret, error);
    if (n != stored->n_entries)
        return error_set(error, STATUS_INVALID_FIELD, "entries: %zu; the kernel has %zu", n, stored->n_entries);
    struct text *names = zone_array(zone, stored->n_renamed, sizeof *names, error);
    if (!names)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (take_name(stored, i, entry_name(entries, i), names, error) < 0)
            return -1;
    return entry_names_pack(names, stored->n_renamed, zone, ret, error);
}

/* ---- a kernel with names ---- */

/* An entry's name holds the stored identifier, its lowered name the placeholder. */
static int put_entry(const struct kernel *stored, struct entry_names names, msgpack_zone *zone,
                     struct kernel_entry *entry, struct error *error)
{
    size_t j = find_renamed(stored, entry->name);
    if (j < stored->n_renamed) {
        struct text whole = entry->name, identifier = entry_identifier(whole);
        size_t before = (size_t)(identifier.at - whole.at), behind = whole.size - before - identifier.size;
        if (zone_format(zone, &entry->name, error, "%.*s%s%.*s", (int)before, whole.at, entry_name(names, j).at,
                        (int)behind, identifier.at + identifier.size) < 0)
            return -1;
    }
    return entry_names_put(names, entry->lowered, zone, &entry->lowered, error);
}

static int put_list(struct entry_names names, struct text *texts, size_t n, msgpack_zone *zone, struct text **ret,
                    struct error *error)
{
    struct text *copy = zone_array(zone, n, sizeof *copy, error);
    if (!copy)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (entry_names_put(names, texts[i], zone, &copy[i], error) < 0)
            return -1;
    *ret = copy;
    return 0;
}

/* A client's own text, in which no line points into another. */
static int put_code(struct entry_names names, struct text code, msgpack_zone *zone, struct text *ret,
                    struct error *error)
{
    char *copy = zone_array(zone, code.size + 1, 1, error);
    if (!copy)
        return -1;
    *ret = (struct text){copy, entry_names_write(names, code, copy)};
    return 0;
}

int kernel_names_put(const struct kernel *stored, struct entry_names names, struct parts parts, msgpack_zone *zone,
                     struct kernel *ret, struct error *error)
{
    struct kernel kernel = *stored;
    if (entry_names_count(names) != stored->n_renamed)
        return error_set(error, STATUS_INTERNAL, "a kernel of %zu placeholders, and %zu names for them",
                         stored->n_renamed, entry_names_count(names));
    kernel.entries = zone_array(zone, stored->n_entries, sizeof *kernel.entries, error);
    if (!kernel.entries || entry_names_unpack(names, zone, &kernel.renamed, &kernel.n_renamed, error) < 0 ||
        put_list(names, stored->warnings, stored->n_warnings, zone, &kernel.warnings, error) < 0)
        return -1;
    for (size_t i = 0; i < stored->n_entries; i++) {
        kernel.entries[i] = stored->entries[i];
        if (put_entry(stored, names, zone, &kernel.entries[i], error) < 0)
            return -1;
    }
    if ((parts.code && put_code(names, stored->code, zone, &kernel.code, error) < 0) ||
        (parts.log && entry_names_put(names, stored->log, zone, &kernel.log, error) < 0))
        return -1;
    *ret = kernel;
    return 0;
}

int kernel_names_put_failure(const struct failure *failure, struct entry_names names, msgpack_zone *zone,
                             struct failure *ret, struct error *error)
{
    struct failure named = *failure;
    if (names.size) {
        named.diagnostics = zone_array(zone, failure->n_diagnostics, sizeof *named.diagnostics, error);
        if (!named.diagnostics)
            return -1;
        if (failure->n_diagnostics)
            memcpy(named.diagnostics, failure->diagnostics, failure->n_diagnostics * sizeof *named.diagnostics);
        if (entry_names_put(names, failure->text, zone, &named.text, error) < 0 ||
            entry_names_put(names, failure->log, zone, &named.log, error) < 0 ||
            entry_names_put_diagnostics(names, named.diagnostics, named.n_diagnostics, zone, error) < 0)
            return -1;
    }
    *ret = named;
    return 0;
}
