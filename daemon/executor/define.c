/* fusion.define: from a request to a fusion that can be launched. */
#include "daemon/executor/process.h"
#include "daemon/executor/requests.h"
#include "daemon/resolve/registers.h"

/* A define that waits for its kernel. */
struct definition {
    struct operation operation;
    struct module_wait wait;
    struct defined *defined; /* until it is the session's */
};

static void finish_definition(struct operation *operation)
{
    defined_destroy(container_of(operation, struct definition, operation)->defined);
}

/* Bind to the module, which has one user more for it, number it, answer. Takes the fusion over when it succeeds; else
 * that stays the caller's, and the module is not used for it any more, or goes with it. */
static int conclude(struct session *session, uint32_t id, struct defined *defined, struct module *module,
                    uint64_t load_ns, struct error *error)
{
    if (defined_bind(defined, module, error) < 0) {
        module_release(module);
        return -1;
    }
    defined->number = session->next_fusion++;
    HASH_ADD(hh, session->fusions, number, sizeof defined->number, defined);
    if (!table_has(defined))
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a fusion");
    const struct device_function *function = &defined->function;
    struct fusion_define_reply reply = {
        .fusion = defined->number,
        .has_fusion = true,
        .index_type = module->kernel.index_type,
        .registers = function->registers,
        .has_registers = function->registers > 0,
        .static_shared_memory = function->static_shared_memory,
        .has_static_shared_memory = true,
        .max_threads = (uint64_t)function->limits.threads,
        .has_max_threads = true,
        .load_ns = load_ns,
        .has_load_ns = true,
    };
    session_reply(session, id, METHOD_FUSION_DEFINE, &reply, NULL, 0);
    return 0;
}

static void on_loaded(struct module_wait *wait, struct module *module, const struct error *failed)
{
    struct definition *definition = container_of(wait, struct definition, wait);
    struct operation *operation = &definition->operation;
    struct session *session = operation->session;
    struct error error;
    if (!module) {
        session_fail(session, operation->id, failed);
    } else if (conclude(session, operation->id, definition->defined, module, module->load_ns, &error) < 0) {
        session_fail(session, operation->id, &error);
    } else {
        definition->defined = NULL;
    }
    operation_end(operation);
    session_advance(session);
}

/* Wait for the kernel. The fusion is the operation's, or stays the caller's when that fails. */
static int wait_for_module(struct session *session, uint32_t id, const struct module_wish *wish,
                           struct defined *defined, struct error *error)
{
    struct operation *operation;
    if (operation_create(session, id, sizeof(struct definition), &operation, error) < 0)
        return -1;
    struct definition *definition = container_of(operation, struct definition, operation);
    definition->wait.done = on_loaded;
    if (modules_load(&session->process->modules, wish, &definition->wait, error) < 0) {
        operation_end(operation);
        return -1;
    }
    operation->finish = finish_definition;
    definition->defined = defined;
    return 0;
}

/* As for SASS, where the compiler is told: block sizes of one class have one limit. The host device loads no PTX. */
static struct load_options load_options(const struct backend *backend, const struct load_wish *wish)
{
    struct load_options options = {0};
    if (backend->facts.kind == DEVICE_KIND_HOST)
        return options;
    options.max_registers = register_limit(backend->facts.capability, wish->block_size, wish->max_registers);
    options.level = wish->has_opt_level ? wish->opt_level + 1 : 0;
    return options;
}

void request_define(struct session *session, const struct envelope *envelope)
{
    struct defined *defined;
    struct error error;
    struct module_wish wish;
    if (HASH_COUNT(session->fusions) >= LIMIT_HANDLES) {
        error_set(&error, STATUS_BUSY, "the channel has %u fusions, the limit", LIMIT_HANDLES);
        request_fail(session, envelope, &error);
        return;
    }
    if (defined_create(envelope->body, &defined, &wish, &error) < 0) {
        request_fail(session, envelope, &error);
        return;
    }
    struct load_options options = load_options(session->process->backend, &defined->options);
    module_wish_set_options(&wish, &options);
    struct module *module = modules_find(&session->process->modules, &wish);
    if ((module ? conclude(session, envelope->id, defined, module, 0, &error)
                : wait_for_module(session, envelope->id, &wish, defined, &error)) < 0) {
        request_fail(session, envelope, &error);
        defined_destroy(defined);
    }
}
