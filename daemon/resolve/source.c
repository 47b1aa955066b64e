#include "daemon/resolve/source.h"

#include <string.h>

#include "daemon/resolve/identifiers.h"
#include "daemon/resolve/zone.h"
#include "preamble/preamble.h"

static const char namespace_open[] = "namespace " SOURCE_NAMESPACE " {\n";
static const char line_one[] = "#line 1 \"fusion.cu\"\n";
/* The line feed ends a last line without one, so that a line comment there cannot hide the brace. */
static const char namespace_close[] = "\n}\n";

static const char include_open[] = "#include \"";
static const char include_close[] = "\"\n";

/* Which modules stand in front, the index module first. */
static int choose_modules(const struct fusion *fusion, enum index_type index_type, struct resolved *ret,
                          struct error *error)
{
    uint8_t closure[PREAMBLE_MAX];
    size_t n = preamble_closure(fusion->code.at, fusion->code.size, closure);
    ret->n_modules = 0;
    if (n == 0 && !code_names(fusion->code, "nvfuser_index_t"))
        return 0;
    int index = preamble_find(index_type == INDEX_TYPE_INT32 ? "index_int32" : "index_int64");
    if (index < 0 || n + 1 > sizeof ret->modules)
        return error_set(error, STATUS_INTERNAL, "resolve: the preamble has no index module or more than %zu modules",
                         sizeof ret->modules);
    ret->modules[0] = (uint8_t)index;
    memcpy(ret->modules + 1, closure, n);
    ret->n_modules = n + 1;
    return 0;
}

static int write_names(const struct fusion *fusion, msgpack_zone *zone, struct resolved *ret, struct error *error)
{
    const char *prefix = fusion->structured ? "" : SOURCE_PREFIX;
    ret->names = zone_array(zone, fusion->n_entries, sizeof *ret->names, error);
    if (!ret->names)
        return -1;
    for (size_t i = 0; i < fusion->n_entries; i++)
        if (zone_format(zone, &ret->names[i], error, "%s%.*s", prefix, (int)fusion->entries[i].size,
                        fusion->entries[i].at))
            return -1;
    ret->n_names = fusion->n_entries;
    return 0;
}

static char *append(char *at, const char *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

static int write_program(const struct fusion *fusion, msgpack_zone *zone, struct resolved *ret, struct error *error)
{
    const struct preamble_module *modules = preamble_modules();
    size_t size = sizeof line_one + fusion->code.size + sizeof namespace_open + sizeof namespace_close;
    for (size_t i = 0; i < ret->n_modules; i++)
        size += sizeof include_open + strlen(modules[ret->modules[i]].include) + sizeof include_close;

    char *program = zone_array(zone, size, 1, error), *at = program;
    if (!program)
        return -1;
    for (size_t i = 0; i < ret->n_modules; i++) {
        const char *include = modules[ret->modules[i]].include;
        at = append(at, include_open, sizeof include_open - 1);
        at = append(at, include, strlen(include));
        at = append(at, include_close, sizeof include_close - 1);
    }
    if (!fusion->structured)
        at = append(at, namespace_open, sizeof namespace_open - 1);
    at = append(at, line_one, sizeof line_one - 1);
    ret->code_at = (size_t)(at - program);
    at = append(at, fusion->code.at, fusion->code.size);
    if (!fusion->structured)
        at = append(at, namespace_close, sizeof namespace_close - 1);
    *at = 0;
    ret->program = (struct text){program, (size_t)(at - program)};
    return 0;
}

int source_write(const struct fusion *fusion, enum index_type index_type, msgpack_zone *zone, struct resolved *ret,
                 struct error *error)
{
    ret->n_modules = 0;
    if (!fusion->structured && choose_modules(fusion, index_type, ret, error))
        return -1;
    ret->index_type = ret->n_modules ? index_type : index_type_absent;
    return write_names(fusion, zone, ret, error) || write_program(fusion, zone, ret, error) ? -1 : 0;
}
