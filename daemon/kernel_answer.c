#include "daemon/kernel_answer.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/kernel_names.h"
#include "daemon/resolve/image_names.h"
#include "proto/envelope.h"

/* A packed answer of up to this many bytes is kept with its kernel; packing a larger one costs little beside its
 * copying. */
#define MAX_KEPT_ANSWER (64u << 10)

struct kernel_reply {
    struct compile_reply compile;
    struct kernel_get_reply get;
    struct text note;
};

/* An answer on its way. */
struct writing {
    struct memory_tier *memory;
    struct held_kernel *held;
    struct entry_names names;
    msgpack_zone *zone;
    int *fds;
    size_t n_fds;
};

/* One long part and its names: inline when it is small, else a descriptor, whose index in the frame goes into the
 * message. */
static int add_part(struct writing *writing, enum kernel_part which, enum image_kind kind, struct bytes *part,
                    uint64_t *size, uint64_t *index, bool *has_index, struct error *error)
{
    int fd = part->size > LIMIT_INLINE_IMAGE ? memory_tier_kept_fd(writing->held, which, writing->names) : -1;
    struct stat status;
    if (fd < 0) {
        if (writing->names.size && image_names_put(writing->names, kind, *part, writing->zone, part, error) < 0)
            return -1;
        *size = part->size;
        if (part->size <= LIMIT_INLINE_IMAGE)
            return 0;
        fd = memory_tier_keep_fd(writing->memory, writing->held, which, writing->names, *part);
    } else if (fstat(fd, &status) == 0) {
        *size = (uint64_t)status.st_size;
    }
    if (fd < 0)
        return error_set_errno(error, STATUS_OUT_OF_MEMORY, errno, "no memfd for a part of the kernel");
    *part = (struct bytes){NULL, 0};
    *index = writing->n_fds;
    *has_index = true;
    writing->fds[writing->n_fds++] = fd;
    return 0;
}

static int choose_parts(struct writing *writing, struct parts parts, struct kernel *ret, struct error *error)
{
    *ret = writing->held->kernel;
    if (writing->names.size &&
        kernel_names_put(&writing->held->kernel, writing->names, parts, writing->zone, ret, error) < 0)
        return -1;
    /* Parts of the record that kernel.source is made of. */
    ret->before = ret->behind = ret->program = (struct text){NULL, 0};
    ret->has_preamble = false;
    if (!parts.details)
        ret->n_args = ret->n_modules = ret->n_headers = ret->n_phases = ret->n_transforms = 0;
    if (!parts.code)
        ret->code = (struct text){NULL, 0};
    if (!parts.log)
        ret->log = (struct text){NULL, 0};
    if (!parts.image)
        ret->image = (struct bytes){NULL, 0};
    else if (add_part(writing, PART_IMAGE, ret->image_kind, &ret->image, &ret->image_size, &ret->image_fd,
                      &ret->has_image_fd, error) < 0)
        return -1;
    if (!parts.ptx || !ret->ptx.at)
        ret->ptx = (struct bytes){NULL, 0};
    else if (add_part(writing, PART_PTX, IMAGE_KIND_PTX, &ret->ptx, &ret->ptx_size, &ret->ptx_fd, &ret->has_ptx_fd,
                      error) < 0)
        return -1;
    return 0;
}

/* *ret_problem is what the reply's notes point to. */
static void tell_override(const struct override_note *note, struct compile_reply *ret, struct text *ret_problem)
{
    ret->ordinal = note->ordinal;
    ret->has_ordinal = note->ordinal > 0;
    if (note->file[0]) {
        ret->overridden = text_of(note->file);
        memcpy(ret->original, note->original, sizeof ret->original);
        ret->has_original = true;
    }
    *ret_problem = text_of(note->problem);
    ret->notes = ret_problem;
    ret->n_notes = note->problem[0] != '\0';
}

static const void *make_reply(enum method method, struct kernel *kernel, const struct kernel_answer *answer,
                              size_t n_fds, struct kernel_reply *ret)
{
    if (method == METHOD_COMPILE) {
        ret->compile = (struct compile_reply){
            .kernel = kernel,
            .outcome = answer->outcome,
            .stored = answer->stored,
            .queue_ns = answer->queue_ns,
            .has_queue_ns = answer->compile_ns > 0,
            .compile_ns = answer->compile_ns,
            .has_compile_ns = answer->compile_ns > 0,
            .fds = n_fds,
            .has_fds = n_fds > 0,
        };
        if (answer->note)
            tell_override(answer->note, &ret->compile, &ret->note);
        return &ret->compile;
    }
    ret->get =
        (struct kernel_get_reply){.kernel = kernel, .outcome = answer->outcome, .fds = n_fds, .has_fds = n_fds > 0};
    return &ret->get;
}

/* A hit in memory says the same each time, so what was packed once is kept with the kernel. */
static bool is_repeatable(const struct kernel_answer *answer)
{
    return answer->outcome == OUTCOME_HIT_MEMORY && answer->stored && !answer->note;
}

static void keep(const struct kernel_answer *answer, const struct writing *writing, enum method method,
                 struct parts parts, const void *reply)
{
    msgpack_sbuffer packed;
    msgpack_sbuffer_init(&packed);
    if (message_pack(methods[method].reply, reply, &packed) == 0 && packed.size <= MAX_KEPT_ANSWER)
        memory_tier_keep_answer(writing->memory, answer->kernel, method, parts, writing->names,
                                (struct bytes){(const uint8_t *)packed.data, packed.size});
    msgpack_sbuffer_destroy(&packed);
}

static int settle_names(const struct kernel_answer *answer, struct writing *writing, struct error *error)
{
    const struct kernel *kernel = &answer->kernel->kernel;
    if (kernel->n_renamed == 0 && answer->entries.size == 0)
        return 0;
    writing->names = answer->names;
    return answer->names.size ? 0
                              : kernel_names_of_entries(kernel, answer->entries, writing->zone, &writing->names, error);
}

static int write_answer(const struct kernel_answer *answer, struct writing *writing, uint32_t id, enum method method,
                        struct parts parts, msgpack_sbuffer *out, struct error *error)
{
    int status;
    struct bytes packed = {NULL, 0};
    if (settle_names(answer, writing, error) < 0)
        return -1;
    if (is_repeatable(answer))
        packed = memory_tier_answer(answer->kernel, method, parts, writing->names);
    if (packed.at) {
        status = envelope_write_packed(out, id, packed);
    } else {
        struct kernel kernel;
        struct kernel_reply reply;
        if (choose_parts(writing, parts, &kernel, error) < 0)
            return -1;
        const void *message = make_reply(method, &kernel, answer, writing->n_fds, &reply);
        status = envelope_write_reply(out, id, method, message);
        if (is_repeatable(answer) && writing->n_fds == 0)
            keep(answer, writing, method, parts, message);
    }
    return status < 0 ? error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a reply") : 0;
}

int kernel_answer_write(const struct kernel_answer *answer, struct memory_tier *memory, uint32_t id, enum method method,
                        struct parts parts, msgpack_sbuffer *out, int *ret_fds, size_t *ret_n_fds, struct error *error)
{
    msgpack_zone zone;
    struct writing writing = {.memory = memory, .held = answer->kernel, .zone = &zone, .fds = ret_fds};
    *ret_n_fds = 0;
    if (!msgpack_zone_init(&zone, 1024))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a reply");
    int status = write_answer(answer, &writing, id, method, parts, out, error);
    msgpack_zone_destroy(&zone);
    *ret_n_fds = status < 0 ? 0 : writing.n_fds;
    return status;
}
