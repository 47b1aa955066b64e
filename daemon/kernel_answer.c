#include "daemon/kernel_answer.h"

#include <errno.h>
#include <string.h>

#include "proto/envelope.h"

/* A packed answer of up to this many bytes is kept with its kernel; packing a larger one costs little beside its
 * copying. */
#define MAX_KEPT_ANSWER (64u << 10)

struct kernel_reply {
    struct compile_reply compile;
    struct kernel_get_reply get;
    struct text note;
};

/* One long part: inline when it is small, else a descriptor, whose index in the frame goes into the message. */
static int add_part(struct bytes *part, int fd, uint64_t *index, bool *has_index, int *fds, size_t *n_fds)
{
    if (fd < 0)
        return -1;
    *part = (struct bytes){NULL, 0};
    *index = *n_fds;
    *has_index = true;
    fds[(*n_fds)++] = fd;
    return 0;
}

static int choose_parts(struct memory_tier *memory, struct held_kernel *held, struct parts parts, struct kernel *ret,
                        int *fds, size_t *n_fds)
{
    *ret = held->kernel;
    /* Parts of the record that kernel.source is made of. */
    ret->before = ret->behind = ret->program = (struct text){NULL, 0};
    ret->has_preamble = false;
    if (!parts.details)
        ret->n_args = ret->n_modules = ret->n_headers = ret->n_phases = 0;
    if (!parts.code)
        ret->code = (struct text){NULL, 0};
    if (!parts.log)
        ret->log = (struct text){NULL, 0};
    if (!parts.image)
        ret->image = (struct bytes){NULL, 0};
    else if (ret->image.size > LIMIT_INLINE_IMAGE && add_part(&ret->image, memory_tier_image_fd(memory, held),
                                                              &ret->image_fd, &ret->has_image_fd, fds, n_fds) < 0)
        return -1;
    if (!parts.ptx)
        ret->ptx = (struct bytes){NULL, 0};
    else if (ret->ptx.size > LIMIT_INLINE_IMAGE &&
             add_part(&ret->ptx, memory_tier_ptx_fd(memory, held), &ret->ptx_fd, &ret->has_ptx_fd, fds, n_fds) < 0)
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

static void keep(const struct kernel_answer *answer, struct memory_tier *memory, enum method method, struct parts parts,
                 const void *reply)
{
    msgpack_sbuffer packed;
    msgpack_sbuffer_init(&packed);
    if (message_pack(methods[method].reply, reply, &packed) == 0 && packed.size <= MAX_KEPT_ANSWER)
        memory_tier_keep_answer(memory, answer->kernel, method, parts,
                                (struct bytes){(const uint8_t *)packed.data, packed.size});
    msgpack_sbuffer_destroy(&packed);
}

int kernel_answer_write(const struct kernel_answer *answer, struct memory_tier *memory, uint32_t id, enum method method,
                        struct parts parts, msgpack_sbuffer *out, int *ret_fds, size_t *ret_n_fds, struct error *error)
{
    int status;
    struct bytes packed = {NULL, 0};
    *ret_n_fds = 0;
    if (is_repeatable(answer))
        packed = memory_tier_answer(answer->kernel, method, parts);
    if (packed.at) {
        status = envelope_write_packed(out, id, packed);
    } else {
        struct kernel kernel;
        struct kernel_reply reply;
        if (choose_parts(memory, answer->kernel, parts, &kernel, ret_fds, ret_n_fds) < 0)
            return error_set_errno(error, STATUS_OUT_OF_MEMORY, errno, "no memfd for a part of the kernel");
        const void *message = make_reply(method, &kernel, answer, *ret_n_fds, &reply);
        status = envelope_write_reply(out, id, method, message);
        if (is_repeatable(answer) && *ret_n_fds == 0)
            keep(answer, memory, method, parts, message);
    }
    return status < 0 ? error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a reply") : 0;
}
