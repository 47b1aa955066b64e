#include "daemon/resolve/source.h"

#include <string.h>

#include "daemon/resolve/defines.h"
#include "daemon/resolve/identifiers.h"
#include "daemon/resolve/zone.h"
#include "preamble/host/abi.h"
#include "preamble/preamble.h"

static const char namespace_open[] = "namespace " SOURCE_NAMESPACE " {\n";
static const char line_one[] = "#line 1 \"fusion.cu\"\n";
/* The line feed ends a last line without one, so that a line comment there cannot hide the brace. */
static const char namespace_close[] = "\n}\n";

/* Findings in the definitions are the client's, but not lines of its code. */
static const char line_defines[] = "#line 1 \"compile.defines\"\n";
static const char define_open[] = "#define ";

static const char include_open[] = "#include \"";
static const char include_close[] = "\"\n";

/* The table of a host image. Findings in it are not the client's lines, but its entries' names. */
static const char include_host[] = "#include \"" FUSIOND_HOST_INCLUDE "\"\n";
static const char table_open[] = "#line 1 \"fusion.entries\"\nFUSIOND_HOST_IMAGE_BEGIN\n";
static const char entry_open[] = "FUSIOND_HOST_ENTRY(\"";
static const char entry_middle[] = "\", ";
static const char entry_close[] = ")\n";
static const char table_close[] = "FUSIOND_HOST_IMAGE_END\n";

/* Which modules stand in front, the index module first. */
static int choose_modules(enum index_type index_type, struct resolved *ret, struct error *error)
{
    uint8_t closure[PREAMBLE_MAX];
    size_t n = preamble_closure(ret->code.at, ret->code.size, closure);
    ret->n_modules = 0;
    if (n == 0 && !code_names(ret->code, "nvfuser_index_t"))
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
        if (zone_format(zone, &ret->names[i], error, "%s%.*s", prefix, (int)ret->entries[i].size, ret->entries[i].at))
            return -1;
    ret->n_names = fusion->n_entries;
    return 0;
}

static char *append(char *at, const char *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

/* Bytes of the lines that append_defines() writes, at most. */
static size_t defines_size(const struct fusion *fusion)
{
    size_t size = sizeof line_defines;
    for (size_t i = 0; fusion->compile && i < fusion->compile->n_defines; i++) {
        const struct define *define = &fusion->compile->defines[i];
        size += sizeof define_open + define->name.size + define_value(define).size + 2;
    }
    return size;
}

/* The client's definitions stand behind the preamble, which must mean the same under any of them. */
static char *append_defines(char *at, const struct fusion *fusion)
{
    if (fusion->structured || !fusion->compile || fusion->compile->n_defines == 0)
        return at;
    at = append(at, line_defines, sizeof line_defines - 1);
    for (size_t i = 0; i < fusion->compile->n_defines; i++) {
        const struct define *define = &fusion->compile->defines[i];
        struct text value = define_value(define);
        at = append(at, define_open, sizeof define_open - 1);
        at = append(at, define->name.at, define->name.size);
        at = append(at, " ", 1);
        at = append(at, value.at, value.size);
        at = append(at, "\n", 1);
    }
    return at;
}

/* Bytes of the table, at most: a name stands in it twice, once with every character escaped. */
static size_t table_size(const struct resolved *resolved)
{
    size_t size = sizeof include_host + sizeof table_open + sizeof table_close;
    for (size_t i = 0; i < resolved->n_names; i++)
        size += sizeof entry_open + sizeof entry_middle + sizeof entry_close + 3 * resolved->names[i].size;
    return size;
}

static char *append_table(char *at, const struct resolved *resolved)
{
    at = append(at, table_open, sizeof table_open - 1);
    for (size_t i = 0; i < resolved->n_names; i++) {
        struct text name = resolved->names[i];
        at = append(at, entry_open, sizeof entry_open - 1);
        for (size_t j = 0; j < name.size; j++) {
            if (name.at[j] == '"' || name.at[j] == '\\')
                *at++ = '\\';
            *at++ = name.at[j];
        }
        at = append(at, entry_middle, sizeof entry_middle - 1);
        at = append(at, name.at, name.size);
        at = append(at, entry_close, sizeof entry_close - 1);
    }
    return append(at, table_close, sizeof table_close - 1);
}

static int write_program(const struct fusion *fusion, msgpack_zone *zone, struct resolved *ret, struct error *error)
{
    const struct preamble_module *modules = preamble_modules();
    bool is_host = ret->image_kind == IMAGE_KIND_SHARED_OBJECT;
    size_t size = (is_host ? table_size(ret) : 0) + sizeof line_one + ret->code.size + sizeof namespace_open +
                  sizeof namespace_close + defines_size(fusion);
    for (size_t i = 0; i < ret->n_modules; i++)
        size += sizeof include_open + strlen(modules[ret->modules[i]].include) + sizeof include_close;

    char *program = zone_array(zone, size, 1, error), *at = program;
    if (!program)
        return -1;
    if (is_host)
        at = append(at, include_host, sizeof include_host - 1);
    for (size_t i = 0; i < ret->n_modules; i++) {
        const char *include = modules[ret->modules[i]].include;
        at = append(at, include_open, sizeof include_open - 1);
        at = append(at, include, strlen(include));
        at = append(at, include_close, sizeof include_close - 1);
    }
    at = append_defines(at, fusion);
    if (!fusion->structured)
        at = append(at, namespace_open, sizeof namespace_open - 1);
    at = append(at, line_one, sizeof line_one - 1);
    ret->code_at = (size_t)(at - program);
    at = append(at, ret->code.at, ret->code.size);
    if (!fusion->structured)
        at = append(at, namespace_close, sizeof namespace_close - 1);
    else if (is_host)
        *at++ = '\n';
    if (is_host)
        at = append_table(at, ret);
    *at = 0;
    ret->program = (struct text){program, (size_t)(at - program)};
    return 0;
}

int source_write(const struct fusion *fusion, enum index_type index_type, msgpack_zone *zone, struct resolved *ret,
                 struct error *error)
{
    ret->n_modules = 0;
    if (!fusion->structured && choose_modules(index_type, ret, error))
        return -1;
    ret->index_type = ret->n_modules ? index_type : index_type_absent;
    return write_names(fusion, zone, ret, error) || write_program(fusion, zone, ret, error) ? -1 : 0;
}
