#include "daemon/executor/modules.h"

#include <stdlib.h>
#include <string.h>

/* The parts of an id. */
#define OPTIONS_AT DIGEST_SIZE
#define ENTRIES_AT (OPTIONS_AT + sizeof(struct load_options))

void modules_init(struct modules *modules, struct backend *backend, struct front *front)
{
    *modules = (struct modules){.backend = backend, .front = front};
    list_init(&modules->idle);
}

static void free_module(struct module *module)
{
    msgpack_zone_destroy(&module->zone);
    free(module);
}

static void unload(struct module *module)
{
    struct modules *modules = module->modules;
    HASH_DEL(modules->by_id, module);
    list_remove(&module->idle);
    if (module->device)
        modules->backend->ops->unload(modules->backend, module->device);
    free_module(module);
}

void modules_finish(struct modules *modules)
{
    struct module *module, *next;
    HASH_ITER(hh, modules->by_id, module, next)
    unload(module);
}

/* ---- users ---- */

static void use(struct module *module)
{
    if (module->users++ == 0 && !list_empty(&module->idle)) {
        list_remove(&module->idle);
        module->modules->idle_bytes -= module->size;
    }
}

static void unload_oldest(struct modules *modules)
{
    struct module *oldest = container_of(modules->idle.next, struct module, idle);
    modules->idle_bytes -= oldest->size;
    unload(oldest);
}

void module_release(struct module *module)
{
    struct modules *modules = module->modules;
    if (--module->users > 0)
        return;
    list_push(&modules->idle, &module->idle);
    modules->idle_bytes += module->size;
    while (modules->idle_bytes > MODULES_IDLE_BYTES)
        unload_oldest(modules);
}

bool modules_unload_idle(struct modules *modules)
{
    bool any = !list_empty(&modules->idle);
    while (!list_empty(&modules->idle))
        unload_oldest(modules);
    return any;
}

int module_wish_make(const uint8_t key[DIGEST_SIZE], const struct text *entries, size_t n_entries, msgpack_zone *zone,
                     struct module_wish *ret, struct error *error)
{
    size_t size = ENTRIES_AT;
    for (size_t i = 0; i < n_entries; i++)
        size += entries[i].size + 1;
    uint8_t *id = msgpack_zone_malloc(zone, size), *at = id;
    if (!id)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to ask for a kernel");
    memset(id, 0, ENTRIES_AT);
    memcpy(at, key, DIGEST_SIZE);
    at += ENTRIES_AT;
    for (size_t i = 0; i < n_entries; at += entries[i++].size + 1)
        memcpy(at, entries[i].at, entries[i].size + 1);
    *ret = (struct module_wish){.id = id, .id_size = size, .entries = entries, .n_entries = n_entries};
    return 0;
}

void module_wish_set_options(struct module_wish *wish, const struct load_options *options)
{
    wish->options = *options;
    memcpy(wish->id + OPTIONS_AT, options, sizeof *options);
}

/* Options mean nothing to machine code, so any that was loaded of the key and the names will do. Looked for only when a
 * client defines a fusion with options that are new here. */
static struct module *find_machine_code(struct modules *modules, const struct module_wish *wish)
{
    struct module *module, *next;
    HASH_ITER(hh, modules->by_id, module, next)
    if (module->device && module->kernel.image_kind != IMAGE_KIND_PTX && module->id_size == wish->id_size &&
        memcmp(module->id, wish->id, OPTIONS_AT) == 0 &&
        memcmp(module->id + ENTRIES_AT, wish->id + ENTRIES_AT, wish->id_size - ENTRIES_AT) == 0)
        return module;
    return NULL;
}

struct module *modules_find(struct modules *modules, const struct module_wish *wish)
{
    struct module *module;
    HASH_FIND(hh, modules->by_id, wish->id, wish->id_size, module);
    if (!module)
        module = find_machine_code(modules, wish);
    if (!module || !module->device)
        return NULL;
    use(module);
    return module;
}

/* ---- loading ---- */

/* The metadata outlives the reply that it came in. */
static int keep_metadata(struct module *module, const struct kernel *kernel, struct error *error)
{
    msgpack_sbuffer packed;
    struct kernel bare = *kernel;
    bare.image = bare.ptx = (struct bytes){NULL, 0};
    msgpack_sbuffer_init(&packed);
    int status = message_pack(&kernel_type, &bare, &packed);
    uint8_t *copy = status == 0 ? msgpack_zone_malloc(&module->zone, packed.size) : NULL;
    if (copy) {
        memcpy(copy, packed.data, packed.size);
        status = message_parse(&kernel_type, copy, packed.size, &module->zone, &module->kernel, error);
    } else {
        status = error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a kernel");
    }
    msgpack_sbuffer_destroy(&packed);
    return status;
}

static int call_loader(struct module *module, const struct kernel *kernel, int image_fd, struct error *error)
{
    struct backend *backend = module->modules->backend;
    return backend->ops->load(backend, kernel->image_kind, image_fd, (size_t)kernel->image_size, &module->options,
                              &module->device, error);
}

static int load(struct module *module, const struct kernel *kernel, int image_fd, struct error *error)
{
    struct backend *backend = module->modules->backend;
    bool for_host = kernel->image_kind == IMAGE_KIND_SHARED_OBJECT;
    if (for_host != (backend->facts.kind == DEVICE_KIND_HOST))
        return error_set(error, STATUS_LOAD_FAILED, "a kernel for %s cannot be loaded on %s", kernel->target.at,
                         backend->facts.name.at);
    if (keep_metadata(module, kernel, error) < 0)
        return -1;
    uint64_t start = uv_hrtime();
    int status = call_loader(module, kernel, image_fd, error);
    if (status < 0 && error->code == STATUS_OUT_OF_MEMORY && modules_unload_idle(module->modules))
        status = call_loader(module, kernel, image_fd, error);
    if (status < 0)
        return -1;
    module->size = kernel->image_size;
    module->load_ns = uv_hrtime() - start;
    return 0;
}

static void on_fetched(struct fetch *fetch, const struct kernel *kernel, int image_fd, const struct error *failed)
{
    struct module *module = container_of(fetch, struct module, fetch);
    struct error error = {0};
    struct list *link;
    if (failed)
        error = *failed;
    else
        load(module, kernel, image_fd, &error);
    if (module->device)
        module->users++; /* while the waiters are told */
    while ((link = list_pop(&module->waiters))) {
        struct module_wait *wait = container_of(link, struct module_wait, link);
        if (module->device)
            module->users++;
        wait->done(wait, module->device ? module : NULL, module->device ? NULL : &error);
    }
    if (module->device)
        module_release(module);
    else
        unload(module);
}

/* What was wished for, until the module goes. */
static int copy_wish(struct module *module, const struct module_wish *wish)
{
    struct text *entries = msgpack_zone_malloc(&module->zone, (wish->n_entries + 1) * sizeof *entries);
    uint8_t *id = msgpack_zone_malloc(&module->zone, wish->id_size);
    if (!entries || !id)
        return -1;
    memcpy(id, wish->id, wish->id_size);
    const char *at = (const char *)id + ENTRIES_AT;
    for (size_t i = 0; i < wish->n_entries; at += wish->entries[i++].size + 1)
        entries[i] = (struct text){at, wish->entries[i].size};
    module->id = id;
    module->id_size = wish->id_size;
    module->options = wish->options;
    module->fetch.entries = entries;
    module->fetch.n_entries = wish->n_entries;
    return 0;
}

static struct module *create_module(struct modules *modules, const struct module_wish *wish)
{
    struct module *module = calloc(1, sizeof *module);
    if (!module || !msgpack_zone_init(&module->zone, 4096)) {
        free(module);
        return NULL;
    }
    memcpy(module->key, wish->id, DIGEST_SIZE);
    module->modules = modules;
    module->fetch.done = on_fetched;
    memcpy(module->fetch.key, wish->id, DIGEST_SIZE);
    list_init(&module->idle);
    list_init(&module->waiters);
    if (copy_wish(module, wish) < 0) {
        free_module(module);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, modules->by_id, module->id, module->id_size, module);
    if (!table_has(module)) {
        free_module(module);
        return NULL;
    }
    return module;
}

int modules_load(struct modules *modules, const struct module_wish *wish, struct module_wait *wait, struct error *error)
{
    struct module *module;
    HASH_FIND(hh, modules->by_id, wish->id, wish->id_size, module);
    if (module) {
        list_push(&module->waiters, &wait->link);
        return 0;
    }
    module = create_module(modules, wish);
    if (!module)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory to load a kernel");
    if (front_fetch(modules->front, &module->fetch, error) < 0) {
        unload(module);
        return -1;
    }
    list_push(&module->waiters, &wait->link);
    return 0;
}
