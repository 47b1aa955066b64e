#include "daemon/compile/product.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/compile/program_files.h"
#include "daemon/compile/title.h"
#include "daemon/resolve/image_names.h"
#include "preamble/preamble.h"
#include "proto/envelope.h"

#define MAX_WARNINGS 64
#define MAX_PHASES 64

/* What is put together before it is copied into the kernel's own zone. */
struct draft {
    struct kernel kernel;
    struct kernel_entry entries[LIMIT_ENTRIES];
    struct text renamed[LIMIT_ENTRIES];
    struct text modules[PREAMBLE_MAX];
    struct text transforms[RESOLVE_TRANSFORMS];
    struct text warnings[MAX_WARNINGS];
    char spill_texts[LIMIT_ENTRIES][LIMIT_NAME + 128];
    struct phase phases[MAX_PHASES];
    char compiler[64];
    char title[TITLE_SIZE];
};

static int take_entries(struct draft *draft, const struct plan *plan, const struct worker_result *result,
                        struct error *error)
{
    const struct fusion *fusion = plan->request.fusion;
    if (result->n_entries != fusion->n_entries)
        return error_set(error, STATUS_INTERNAL, "the worker described %zu of %zu entries", result->n_entries,
                         fusion->n_entries);
    for (size_t i = 0; i < result->n_entries; i++) {
        draft->entries[i] = result->entries[i];
        draft->entries[i].name = fusion->entries[i];
        /* A name in an unnamed namespace carries the compiling process's id. */
        if (strstr(result->entries[i].lowered.at, "_GLOBAL__N_") || strstr(result->entries[i].lowered.at, "_INTERNAL_"))
            draft->kernel.irreproducible = true;
    }
    draft->kernel.entries = draft->entries;
    draft->kernel.n_entries = result->n_entries;
    for (size_t i = 0; i < entry_names_count(plan->resolved.entry_names); i++)
        draft->renamed[draft->kernel.n_renamed++] = entry_name(plan->resolved.entry_names, i);
    draft->kernel.renamed = draft->renamed;
    return 0;
}

static void take_warnings(struct draft *draft, const struct plan *plan)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->resolved.n_warnings && n < MAX_WARNINGS; i++)
        draft->warnings[n++] = plan->resolved.warnings[i];
    for (size_t i = 0; i < draft->kernel.n_entries && n < MAX_WARNINGS; i++) {
        const struct kernel_entry *entry = &draft->entries[i];
        if (entry->spill_stores + entry->spill_loads <= plan->request.fusion->spill_threshold)
            continue;
        snprintf(draft->spill_texts[i], sizeof draft->spill_texts[i],
                 "%.512s spills: %llu bytes stored, %llu bytes loaded at %llu registers", plan->resolved.entries[i].at,
                 (unsigned long long)entry->spill_stores, (unsigned long long)entry->spill_loads,
                 (unsigned long long)entry->registers);
        draft->warnings[n++] = text_of(draft->spill_texts[i]);
    }
    draft->kernel.warnings = draft->warnings;
    draft->kernel.n_warnings = n;
}

static void take_phases(struct draft *draft, const struct pool_outcome *outcome)
{
    size_t n = 0;
    draft->phases[n++] = (struct phase){TEXT_OF("queue"), outcome->queue_ns, true};
    draft->phases[n++] = (struct phase){TEXT_OF("worker"), outcome->compile_ns, true};
    for (size_t i = 0; i < outcome->result->n_phases && n < MAX_PHASES; i++)
        draft->phases[n++] = outcome->result->phases[i];
    draft->kernel.phases = draft->phases;
    draft->kernel.n_phases = n;
}

/* The code, and what stands around it in the program. */
static void take_program(struct kernel *kernel, const struct plan *plan)
{
    const struct resolved *resolved = &plan->resolved;
    struct text program = resolved->program;
    size_t behind = resolved->code_at + resolved->code.size;
    if (plan->transformed) {
        kernel->code = plan->request.fusion->code; /* names are kept where there are transforms */
        kernel->program = program;
    } else {
        kernel->code = resolved->code;
        kernel->before = (struct text){program.at, resolved->code_at};
        kernel->behind = (struct text){program.at + behind, program.size - behind};
    }
    program_files_digest(program, kernel->preamble);
    kernel->has_preamble = true;
}

static void take_request(struct draft *draft, const struct plan *plan, struct header_digest *headers)
{
    const struct fusion *fusion = plan->request.fusion;
    const struct resolved *resolved = &plan->resolved;
    struct kernel *kernel = &draft->kernel;
    for (size_t i = 0; i < resolved->n_modules; i++)
        draft->modules[i] = text_of(preamble_modules()[resolved->modules[i]].name);
    for (size_t i = 0; i < fusion->n_headers; i++) {
        headers[i] = (struct header_digest){.name = fusion->headers[i].name, .has_digest = true};
        memcpy(headers[i].digest, plan->header_digests[i], DIGEST_SIZE);
    }
    memcpy(kernel->key, plan->key, sizeof kernel->key);
    kernel->has_key = true;
    kernel->title = title_of(fusion, plan->key, draft->title);
    /* Listings show labels: those who number their kernels need no other one. */
    kernel->label = fusion->label.at || !fusion->ids ? fusion->label : kernel->title;
    kernel->scheduler = fusion->scheduler;
    kernel->target = resolved->target;
    kernel->image_kind = resolved->image_kind;
    kernel->index_type = resolved->index_type;
    kernel->args = resolved->args;
    kernel->n_args = resolved->n_args;
    kernel->max_registers = resolved->max_registers;
    kernel->has_max_registers = resolved->max_registers > 0;
    kernel->block_size = resolved->block_size;
    kernel->has_block_size = resolved->block_size > 0;
    kernel->modules = draft->modules;
    kernel->n_modules = resolved->n_modules;
    kernel->headers = headers;
    kernel->n_headers = fusion->n_headers;
    kernel->structured = fusion->structured;
    take_program(kernel, plan);
    for (size_t i = 0; i < plan->n_transforms; i++)
        draft->transforms[i] = text_of(strchr(plan->transforms[i].name.at, ' ') + 1); /* without "transform" */
    kernel->transforms = draft->transforms;
    kernel->n_transforms = plan->n_transforms;
    snprintf(draft->compiler, sizeof draft->compiler, "%s %u.%u", compiler_name(plan->compiler), plan->compiler_major,
             plan->compiler_minor);
    kernel->compiler = text_of(draft->compiler);
    memcpy(kernel->build, plan->build, sizeof kernel->build);
    kernel->has_build = true;
    kernel->created_unix_s = (uint64_t)time(NULL);
    kernel->has_created_unix_s = true;
}

static int take_images(struct draft *draft, const struct worker_result *result, struct error *error)
{
    struct kernel *kernel = &draft->kernel;
    bool ptx = kernel->image_kind == IMAGE_KIND_PTX;
    kernel->image = ptx ? result->ptx : result->image;
    if (!kernel->image.at || kernel->image.size == 0)
        return error_set(error, STATUS_INTERNAL, "the worker returned no %s", image_kind_word((int)kernel->image_kind));
    kernel->image_size = kernel->image.size;
    kernel->has_image_size = true;
    if (!ptx && result->ptx.at) {
        kernel->ptx = result->ptx;
        kernel->ptx_size = result->ptx.size;
        kernel->has_ptx_size = true;
    }
    kernel->log = result->log.at ? result->log : TEXT_OF("");
    return 0;
}

bool product_takes_names(const struct plan *plan, const struct worker_result *result)
{
    struct entry_names names = plan->resolved.entry_names;
    msgpack_zone zone;
    struct bytes ignored;
    struct error error = {0};
    if (names.size == 0 || !msgpack_zone_init(&zone, 8192))
        return true;
    if (plan->resolved.image_kind != IMAGE_KIND_PTX && result->image.size)
        image_names_put(names, plan->resolved.image_kind, result->image, &zone, &ignored, &error);
    if (result->ptx.size && error.code == STATUS_OK)
        image_names_put(names, IMAGE_KIND_PTX, result->ptx, &zone, &ignored, &error);
    msgpack_zone_destroy(&zone);
    return error.code != STATUS_INTERNAL;
}

/* A deep copy into the kernel's zone: pack, and parse what was packed. */
static struct held_kernel *copy(const struct draft *draft, const struct kernel_id *id, struct error *error)
{
    msgpack_sbuffer packed;
    struct held_kernel *held = held_kernel_create(id);
    msgpack_sbuffer_init(&packed);
    bool is_packed = message_pack(&kernel_type, &draft->kernel, &packed) == 0;
    uint8_t *bytes = held && is_packed ? msgpack_zone_malloc(&held->zone, packed.size) : NULL;
    if (!bytes) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a kernel of %zu bytes", draft->kernel.image.size);
        goto fail;
    }
    memcpy(bytes, packed.data, packed.size);
    if (message_parse(&kernel_type, bytes, packed.size, &held->zone, &held->kernel, error) < 0)
        goto fail;
    msgpack_sbuffer_destroy(&packed);
    return held;
fail:
    msgpack_sbuffer_destroy(&packed);
    held_kernel_destroy(held);
    return NULL;
}

struct held_kernel *product_of(const struct plan *plan, const struct kernel_id *id, const struct pool_outcome *outcome,
                               struct error *error)
{
    struct held_kernel *held = NULL;
    struct draft *draft = calloc(1, sizeof *draft);
    struct header_digest *headers = calloc(plan->request.fusion->n_headers + 1, sizeof *headers);
    if (!draft || !headers) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a kernel's description");
    } else {
        take_request(draft, plan, headers);
        if (take_entries(draft, plan, outcome->result, error) == 0 && take_images(draft, outcome->result, error) == 0) {
            take_warnings(draft, plan);
            take_phases(draft, outcome);
            held = copy(draft, id, error);
        }
    }
    free(headers);
    free(draft);
    return held;
}

/* The length of a text's first line, cut to what fits into an error. */
static int first_line(struct text text)
{
    size_t size = strcspn(text.at, "\n");
    return size < 300 ? (int)size : 300;
}

/* What to do about a header that is not there. */
static const char *hint(enum compiler_kind compiler, struct text complaint)
{
    /* "cannot open …" with quotes, "could not open …" with angle brackets. */
    if (strstr(complaint.at, "open source file") == NULL)
        return "";
    return compiler == COMPILER_NVRTC ? "; headers come with fusion.headers, those of the CUDA toolkit are there when "
                                        "compile.toolkit_headers asks for them"
                                      : "; headers come with fusion.headers";
}

/* The assembler's words for an instruction that the target lacks. */
static const struct diagnostic *find_lacking(const struct worker_result *result)
{
    for (size_t i = 0; i < result->n_diagnostics; i++) {
        const struct diagnostic *diagnostic = &result->diagnostics[i];
        if (diagnostic->severity == SEVERITY_ERROR && (strstr(diagnostic->text.at, "not supported on .target") ||
                                                       strstr(diagnostic->text.at, "requires .target")))
            return diagnostic;
    }
    return NULL;
}

struct failure product_failure(const struct plan *plan, const struct worker_result *result, struct error *error)
{
    const struct diagnostic *first = NULL, *lacking = find_lacking(result);
    size_t n_errors = 0;
    for (size_t i = 0; i < result->n_diagnostics; i++) {
        if (result->diagnostics[i].severity != SEVERITY_ERROR)
            continue;
        n_errors++;
        if (!first)
            first = &result->diagnostics[i];
    }
    if (lacking)
        error_set(
            error, STATUS_UNSUPPORTED_TARGET,
            "the code needs another target than %s: %.*s; what is specific to one architecture needs its suffix a, "
            "which a device's target has only where the compiler knows that very device",
            plan->resolved.target.at, first_line(lacking->text), lacking->text.at);
    else if (first && first->file.at)
        error_set(error, STATUS_COMPILE_FAILED, "%.64s:%llu: %.*s (%zu error%s)%s", first->file.at,
                  (unsigned long long)first->line, first_line(first->text), first->text.at, n_errors,
                  n_errors == 1 ? "" : "s", hint(plan->compiler, first->text));
    else if (first)
        error_set(error, STATUS_COMPILE_FAILED, "%.*s%s", first_line(first->text), first->text.at,
                  hint(plan->compiler, first->text));
    else
        error_set(error, STATUS_COMPILE_FAILED, "%s: the log says why", result->result_name.at);
    struct failure failure = failure_of(error);
    failure.log = result->log;
    failure.diagnostics = result->diagnostics;
    failure.n_diagnostics = result->n_diagnostics;
    return failure;
}
