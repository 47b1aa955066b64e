#include "daemon/resolve/checks.h"

#include <string.h>

#include "daemon/resolve/arch.h"
#include "daemon/resolve/names.h"
#include "daemon/resolve/params.h"
#include "daemon/resolve/registers.h"
#include "daemon/resolve/sorted.h"
#include "daemon/resolve/source.h"
#include "daemon/resolve/zone.h"
#include "preamble/host/abi.h"

#define SHARED_EVERYWHERE 49152u
/* As much as the largest GPU of today has. */
#define SHARED_HOST FUSIOND_HOST_DYNAMIC_BYTES
#define REASON_SHOWN 320u /* bytes of the client's reason that an error has room for */

static int check_code(struct text code, struct error *error)
{
    if (!code.at)
        return error_set(error, STATUS_MISSING_FIELD, "fusion.code: is absent");
    if (code.size == 0)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.code: is empty");
    /* The compiler would see only what stands before it. */
    const char *nul = memchr(code.at, 0, code.size);
    if (nul)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.code: has a NUL at byte %zu", (size_t)(nul - code.at));
    return 0;
}

static int check_entries(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    char printable[PRINTABLE], scratch[64];
    struct numbered *names = zone_array(zone, fusion->n_entries, sizeof *names, error);
    if (!names)
        return -1;
    if (fusion->n_entries == 0)
        return error_set(error, STATUS_MISSING_FIELD, "fusion.entries: names no kernel; at least 1 is needed");
    /* The whole name expression must still be a name to the worker and in the record. */
    size_t longest = LIMIT_NAME - (fusion->structured ? 0 : strlen(SOURCE_PREFIX));
    for (size_t i = 0; i < fusion->n_entries; i++) {
        if (fusion->entries[i].size > longest)
            return error_set(error, STATUS_INVALID_FIELD, "fusion.entries[%zu]: has %zu bytes; the limit is %zu", i,
                             fusion->entries[i].size, longest);
        const char *fault = entry_fault(fusion->entries[i], scratch);
        if (fault)
            return error_set(error, STATUS_INVALID_FIELD, "fusion.entries[%zu]: \"%s\" %s", i,
                             text_printable(fusion->entries[i], printable), fault);
        names[i] = (struct numbered){fusion->entries[i], i};
    }
    sorted_sort(names, fusion->n_entries);
    const struct numbered *twice = sorted_twice(names, fusion->n_entries);
    if (twice)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.entries[%zu]: \"%s\" is given twice", twice->number,
                         text_printable(twice->name, printable));
    return 0;
}

static int check_headers(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    char printable[PRINTABLE];
    struct numbered *names = zone_array(zone, fusion->n_headers, sizeof *names, error);
    if (!names)
        return -1;
    for (size_t i = 0; i < fusion->n_headers; i++) {
        const struct header *header = &fusion->headers[i];
        const char *fault = header_fault(header->name);
        if (fault)
            return error_set(error, STATUS_INVALID_FIELD, "fusion.headers[%zu].name: \"%s\" %s", i,
                             text_printable(header->name, printable), fault);
        if (!header->bytes.at && !header->has_digest)
            return error_set(error, STATUS_MISSING_FIELD, "fusion.headers[%zu] \"%s\": has neither bytes nor digest", i,
                             text_printable(header->name, printable));
        if (header->bytes.at && header->has_digest)
            return error_set(error, STATUS_INVALID_FIELD,
                             "fusion.headers[%zu] \"%s\": has both bytes and digest; give one", i,
                             text_printable(header->name, printable));
        if (header->bytes.at && header->bytes.size && memchr(header->bytes.at, 0, header->bytes.size))
            return error_set(error, STATUS_INVALID_FIELD, "fusion.headers[%zu].bytes: \"%s\" has a NUL", i,
                             text_printable(header->name, printable));
        names[i] = (struct numbered){header->name, i};
    }
    sorted_sort(names, fusion->n_headers);
    const struct numbered *twice = sorted_twice(names, fusion->n_headers);
    if (twice)
        return error_set(error, STATUS_INVALID_FIELD, "fusion.headers[%zu].name: \"%s\" is given twice", twice->number,
                         text_printable(twice->name, printable));
    return 0;
}

int check_fields(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    if (check_code(fusion->code, error) || check_entries(fusion, zone, error) || check_headers(fusion, zone, error) ||
        params_check(fusion, zone, error))
        return -1;
    if (fusion->structured && fusion->index_type)
        return error_set(error, STATUS_INVALID_FIELD,
                         "fusion.index_type: is %s, but structured code brings its own index type; leave it out",
                         index_type_word((int)fusion->index_type));
    return 0;
}

int check_outputs(const struct fusion *fusion, msgpack_zone *zone, struct error *error)
{
    if (fusion->n_outputs == 0 && !fusion->side_effects_only)
        return error_set(error, STATUS_NO_OUTPUTS,
                         "fusion.outputs: the fusion declares none; a fusion that only has side effects must set "
                         "side_effects_only");
    return outputs_check(fusion, zone, error) < 0 ? -1 : intermediates_check(fusion, zone, error);
}

unsigned shared_memory_limit(const struct target *target, const struct compiler_facts *facts)
{
    const struct arch *arch = arch_find(target->arch);
    if (target->image_kind == IMAGE_KIND_SHARED_OBJECT)
        return SHARED_HOST;
    if (!compiler_is(facts, 13, 0))
        return SHARED_EVERYWHERE;
    return target->suffix == 'a' ? arch->shared_a : arch->shared;
}

int check_requirements(const struct requirements *requires, const struct target *target,
                       const struct compiler_facts *facts, struct error *error)
{
    char name[TARGET_TEXT];
    if (!requires)
        return 0;
    target_name(target, name);
    /* The CPU has no capability; code that needs what it lacks does not compile. */
    bool is_host = target->image_kind == IMAGE_KIND_SHARED_OBJECT;
    if (requires->has_min_capability && target->arch < requires->min_capability && !is_host) {
        int size = (int)(requires->reason.size < REASON_SHOWN ? requires->reason.size : REASON_SHOWN);
        return error_set(
            error, STATUS_UNSUPPORTED_TARGET,
            "fusion.requires.min_capability: the target %s is below the %llu that the fusion requires%s%.*s", name,
            (unsigned long long) requires->min_capability, size ? ": " : "", size, size ? requires->reason.at : "");
    }
    unsigned limit = shared_memory_limit(target, facts);
    if (requires->has_static_shared_memory && requires->static_shared_memory > limit && is_host)
        return error_set(error, STATUS_SHARED_MEMORY_LIMIT,
                         "fusion.requires.static_shared_memory: is %llu bytes; the limit of the host device is %u",
                         (unsigned long long) requires->static_shared_memory, limit);
    if (requires->has_static_shared_memory && requires->static_shared_memory > limit)
        return error_set(error, STATUS_SHARED_MEMORY_LIMIT,
                         "fusion.requires.static_shared_memory: is %llu bytes; the limit of %s with NVRTC %u.%u is %u",
                         (unsigned long long) requires->static_shared_memory, name, facts->major, facts->minor, limit);
    return 0;
}

int check_block(const struct compile_options *compile, struct error *error)
{
    if (compile->has_block_size && (compile->block_size <= 0 || compile->block_size > (int64_t)BLOCK_THREADS))
        return error_set(error, STATUS_INVALID_BLOCK,
                         "fusion.compile.block_size: is %lld threads; the limits are 1 and %u",
                         (long long)compile->block_size, BLOCK_THREADS);
    return 0;
}
