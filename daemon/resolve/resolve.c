#include "daemon/resolve/resolve.h"

#include <string.h>

#include "daemon/resolve/checks.h"
#include "daemon/resolve/identifiers.h"
#include "daemon/resolve/index_type.h"
#include "daemon/resolve/options.h"
#include "daemon/resolve/placeholder.h"
#include "daemon/resolve/registers.h"
#include "daemon/resolve/source.h"
#include "daemon/resolve/zone.h"
#include "preamble/preamble.h"

/* More than there are rules that warn. */
#define WARNINGS_MAX 16u

/* The parts of a key beside the preamble's modules: the text before the code and the text behind it. */
#define FRAME_PARTS 2u

_Static_assert(sizeof((struct resolved){0}.modules) == PREAMBLE_MAX, "every module has a place");

/* What the steps of one request share. */
struct step {
    const struct fusion *fusion;
    const struct compile_options *compile;
    const struct compiler_facts *facts;
    msgpack_zone *zone;
    struct target target;
    enum index_type index_type;
    size_t uncovered; /* tensors that the sample does not describe */
    bool keep_names;
};

/* Where the next sentence for the client goes. */
static struct text *next_warning(struct resolved *ret)
{
    return &ret->warnings[ret->n_warnings++];
}

/* ---- the rules that end in a sentence for the client ---- */

static int warn_target(const struct step *step, struct resolved *ret, struct error *error)
{
    const struct target *target = &step->target;
    if (!target->device || target->device == target->arch)
        return 0;
    return zone_format(step->zone, next_warning(ret), error,
                       "NVRTC %u.%u does not know compute capability %u.%u; compiled for %s", step->facts->major,
                       step->facts->minor, target->device / 10, target->device % 10, ret->target.at);
}

static int warn_options(const struct step *step, struct resolved *ret, struct error *error)
{
    const struct compile_options *compile = step->compile;
    if (compile->debug && compile->line_info &&
        zone_format(step->zone, next_warning(ret), error,
                    "compile.debug drops compile.line_info; debug information holds the lines"))
        return -1;
    unsigned fast = step->target.image_kind == IMAGE_KIND_SHARED_OBJECT ? OPT_LEVEL_HOST : OPT_LEVEL_DEFAULT;
    if (compile->has_opt_level && compile->opt_level < fast &&
        zone_format(step->zone, next_warning(ret), error,
                    "compile.opt_level %u is below the default of %u; the kernel will be slower",
                    (unsigned)compile->opt_level, fast))
        return -1;
    if (compile->quick && !compile->no_fmad && step->target.image_kind != IMAGE_KIND_SHARED_OBJECT &&
        zone_format(step->zone, next_warning(ret), error,
                    "compile.quick %s fuses products and sums otherwise: last bits can differ from full optimisation's",
                    quick_level_word((int)compile->quick)))
        return -1;
    return 0;
}

/* What was asked for explicitly and has no form there. A block size is no wish, and contracted products are allowed,
 * not promised. */
static int warn_host(const struct step *step, struct resolved *ret, struct error *error)
{
    const struct compile_options *compile = step->compile;
    const struct {
        bool asked;
        const char *field, *why;
    } options[] = {
        {compile->has_max_registers, "max_registers", "a CPU's registers are its own affair"},
        {compile->fast_math, "fast_math", "its mathematics has one form"},
        {compile->quick != 0, "quick", "it has no such level"},
        {compile->toolkit_headers, "toolkit_headers", "programs see no header of the machine there"},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (step->target.image_kind == IMAGE_KIND_SHARED_OBJECT && options[i].asked &&
            zone_format(step->zone, next_warning(ret), error, "compile.%s does nothing on the host device: %s",
                        options[i].field, options[i].why))
            return -1;
    }
    return 0;
}

/* Either attribute makes the assembler ignore the limit without a word. */
static int warn_bounds(const struct step *step, struct resolved *ret, struct error *error)
{
    static const char *const attributes[] = {"__launch_bounds__", "__maxnreg__"};
    unsigned limit = ret->max_registers ? ret->max_registers : ret->load_max_registers;
    for (size_t i = 0; limit && i < sizeof attributes / sizeof attributes[0]; i++)
        if (code_names(step->fusion->code, attributes[i]) &&
            zone_format(step->zone, next_warning(ret), error,
                        "the code has %s, which overrides the limit of %u registers in its kernels", attributes[i],
                        limit))
            return -1;
    return 0;
}

static int warn_sample(const struct step *step, struct resolved *ret, struct error *error)
{
    if (!step->uncovered || step->fusion->index_type || !ret->index_type)
        return 0;
    return zone_format(
        step->zone, next_warning(ret), error,
        "the sample leaves out %zu of the fusion's tensors, outputs included, so the index type is int64",
        step->uncovered);
}

static int write_warnings(const struct step *step, struct resolved *ret, struct error *error)
{
    ret->warnings = zone_array(step->zone, WARNINGS_MAX, sizeof *ret->warnings, error);
    if (!ret->warnings)
        return -1;
    ret->n_warnings = 0;
    return warn_target(step, ret, error) || warn_options(step, ret, error) || warn_host(step, ret, error) ||
                   warn_bounds(step, ret, error) || warn_sample(step, ret, error)
               ? -1
               : 0;
}

/* ---- settling ---- */

static int rename_entries(const struct step *step, struct resolved *ret, struct error *error)
{
    struct renaming renaming;
    const char *keep = step->keep_names ? "the image shows the names of its kernels"
                       : step->target.image_kind == IMAGE_KIND_SHARED_OBJECT
                           ? "images for the host device keep their names"
                           : NULL;
    if (placeholder_rename(step->fusion, keep, step->zone, &renaming, error) < 0)
        return -1;
    ret->code = renaming.code;
    ret->entries = renaming.entries;
    ret->entry_names = renaming.names;
    ret->names_kept = renaming.kept;
    return 0;
}

/* B1.2's order; the fields themselves come before it, the index type after it. */
static int check(struct step *step, const struct sample_tensor *sample, size_t n_sample, struct error *error)
{
    const struct fusion *fusion = step->fusion;
    if (check_fields(fusion, step->zone, error) || check_outputs(fusion, step->zone, error) ||
        target_settle(fusion->target, step->compile->image, step->facts, &step->target, error) ||
        check_requirements(fusion->requires, &step->target, step->facts, error) || check_block(step->compile, error) ||
        options_check(step->compile, step->zone, error))
        return -1;
    return index_type_settle(fusion->index_type, fusion->params, fusion->n_params, sample, n_sample, &step->index_type,
                             &step->uncovered, error);
}

/* A limit of registers and the optimiser's level act when SASS is made: by the compiler, or when PTX is loaded. */
static void settle_registers(const struct step *step, struct resolved *ret)
{
    const struct compile_options *compile = step->compile;
    ret->block_size = compile->has_block_size ? (unsigned)compile->block_size : 0;
    bool ptx = step->target.image_kind == IMAGE_KIND_PTX;
    unsigned limit = 0; /* a CPU's registers are its own affair */
    if (step->target.image_kind != IMAGE_KIND_SHARED_OBJECT)
        limit = register_limit(step->target.arch, ret->block_size,
                               compile->has_max_registers ? (unsigned)compile->max_registers : 0);
    ret->max_registers = ptx ? 0 : limit;
    ret->load_max_registers = ptx ? limit : 0;
    ret->load_opt_level = ptx && compile->has_opt_level ? (int)compile->opt_level : -1;
}

/* Names of the headers as the key wants them; resolved_key() adds the digests. */
static int write_header_parts(const struct step *step, struct resolved *ret, struct error *error)
{
    const struct fusion *fusion = step->fusion;
    ret->header_parts = zone_array(step->zone, fusion->n_headers, sizeof *ret->header_parts, error);
    if (!ret->header_parts)
        return -1;
    for (size_t i = 0; i < fusion->n_headers; i++)
        ret->header_parts[i].name = fusion->headers[i].name;
    return 0;
}

static int settle(const struct fusion *fusion, const struct sample_tensor *sample, size_t n_sample,
                  const struct compiler_facts *facts, bool keep_names, msgpack_zone *zone, struct resolved *ret,
                  struct error *error)
{
    static const struct compile_options nothing;
    struct resolved resolved = {0};
    char name[TARGET_TEXT];
    struct step step = {
        .fusion = fusion,
        .compile = fusion->compile ? fusion->compile : &nothing,
        .facts = facts,
        .zone = zone,
        .keep_names = keep_names,
    };
    if (check(&step, sample, n_sample, error))
        return -1;
    if (zone_format(zone, &resolved.target, error, "%s", target_name(&step.target, name)))
        return -1;
    resolved.image_kind = step.target.image_kind;
    settle_registers(&step, &resolved);

    struct settings settings = {step.compile,      facts, &step.target, resolved.target, resolved.max_registers,
                                fusion->structured};
    if (options_write(&settings, zone, &resolved, error) || rename_entries(&step, &resolved, error) ||
        source_write(fusion, step.index_type, zone, &resolved, error) || write_header_parts(&step, &resolved, error) ||
        write_warnings(&step, &resolved, error))
        return -1;
    *ret = resolved;
    return 0;
}

int resolve(const struct fusion *fusion, const struct sample_tensor *sample, size_t n_sample,
            const struct compiler_facts *facts, msgpack_zone *zone, struct resolved *ret, struct error *error)
{
    return settle(fusion, sample, n_sample, facts, false, zone, ret, error);
}

int resolve_keeping_names(const struct fusion *fusion, const struct sample_tensor *sample, size_t n_sample,
                          const struct compiler_facts *facts, msgpack_zone *zone, struct resolved *ret,
                          struct error *error)
{
    return settle(fusion, sample, n_sample, facts, true, zone, ret, error);
}

/* ---- the key ---- */

_Static_assert(FRAME_PARTS + PREAMBLE_MAX + RESOLVE_TRANSFORMS <= RESOLVED_PARTS, "room for all parts");

/* What stands around the code is hashed as it is, so that another way to assemble programs gives other keys. */
size_t resolved_parts(const struct resolved *resolved, const struct compiler_facts *facts,
                      struct key_part ret[RESOLVED_PARTS])
{
    const struct preamble_module *modules = preamble_modules();
    const char *behind = resolved->program.at + resolved->code_at + resolved->code.size;
    size_t n = 0;
    ret[n].name = TEXT_OF("before the code");
    digest_of(resolved->program.at, resolved->code_at, ret[n++].digest);
    ret[n].name = TEXT_OF("behind the code");
    digest_of(behind, (size_t)(resolved->program.at + resolved->program.size - behind), ret[n++].digest);
    for (size_t i = 0; i < resolved->n_modules; i++, n++) {
        const struct preamble_module *module = &modules[resolved->modules[i]];
        ret[n].name = text_of(module->include);
        memcpy(ret[n].digest, module->digest, DIGEST_SIZE);
    }
    for (size_t i = 0; i < facts->n_transforms && i < RESOLVE_TRANSFORMS; i++)
        ret[n++] = facts->transforms[i];
    return n;
}

void resolved_key(const struct fusion *fusion, const struct resolved *resolved, const struct compiler_facts *facts,
                  const uint8_t (*headers)[DIGEST_SIZE], uint8_t ret[KEY_SIZE])
{
    struct key_part modules[RESOLVED_PARTS];
    struct key_input input = {
        .target = resolved->target,
        .image_kind = resolved->image_kind,
        .index_type = resolved->index_type,
        .structured = fusion->structured,
        .args = resolved->key_args,
        .n_args = resolved->n_key_args,
        .modules = modules,
        .n_modules = resolved_parts(resolved, facts, modules),
        .headers = resolved->header_parts,
        .n_headers = fusion->n_headers,
        .entries = resolved->entries,
        .n_entries = fusion->n_entries,
        .n_renamed = entry_names_count(resolved->entry_names),
        .code = resolved->code,
    };
    for (size_t i = 0; i < fusion->n_headers; i++)
        memcpy(resolved->header_parts[i].digest, headers[i], DIGEST_SIZE);
    memcpy(input.build, facts->build, DIGEST_SIZE);
    kernel_key(&input, ret);
}
