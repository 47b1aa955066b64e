/* The kernels that are loaded on the device: one CudaExecutable, or host image, per key and names and, of PTX, per
 * options that it was loaded with; shared by all clients. Profilers read the names out of what is loaded, so clients
 * with other names for a kernel have it loaded again. */
#ifndef DAEMON_EXECUTOR_MODULES_H
#define DAEMON_EXECUTOR_MODULES_H

#include "daemon/executor/device.h"
#include "daemon/executor/front.h"
#include "daemon/executor/table.h"

/* Bytes of images that nobody uses any more and that stay loaded for whoever comes next. */
#define MODULES_IDLE_BYTES (256u << 20)

/* A loaded kernel. Owned by the modules; `users` of it may keep a pointer. */
struct module {
    UT_hash_handle hh;
    uint8_t key[DIGEST_SIZE];
    const uint8_t *id; /* as in the wish for it; in the zone */
    size_t id_size;
    struct load_options options;  /* the same */
    struct device_module *device; /* NULL while it is being fetched */
    struct kernel kernel;         /* its metadata; texts in the zone */
    msgpack_zone zone;
    uint64_t size;
    uint64_t load_ns;
    size_t users;
    struct list idle;    /* in modules->idle while it has no user */
    struct list waiters; /* while it is being fetched */
    struct fetch fetch;
    struct modules *modules;
};

/* Embedded in whoever waits for a kernel. */
struct module_wait {
    struct list link;
    /* Called once, on the loop. The module has the waiter as a user; NULL beside an error. */
    void (*done)(struct module_wait *wait, struct module *module, const struct error *error);
};

/* Embedded in the executor. */
struct modules {
    struct backend *backend;
    struct front *front;
    struct module *by_id;
    struct list idle; /* the longest unused first */
    uint64_t idle_bytes;
};

void modules_init(struct modules *modules, struct backend *backend, struct front *front);
/* Unload all; nobody waits or uses one any more. */
void modules_finish(struct modules *modules);

/* A kernel as it is asked for. `entries` are its entries as the client calls them, or none. */
struct module_wish {
    /* The key, the options, and each of the entries with its NUL: no two wishes are the same bytes. */
    uint8_t *id;
    size_t id_size;
    struct load_options options;
    const struct text *entries;
    size_t n_entries;
};

/* All of it lives as long as the zone and the entries. Without options. */
int module_wish_make(const uint8_t key[DIGEST_SIZE], const struct text *entries, size_t n_entries, msgpack_zone *zone,
                     struct module_wish *ret, struct error *error);
/* Wish for these, if the kernel is PTX; to machine code they mean nothing. */
void module_wish_set_options(struct module_wish *wish, const struct load_options *options);

/* The module if it is loaded, with one user more, or NULL. */
struct module *modules_find(struct modules *modules, const struct module_wish *wish);
/* Fetch and load one that was not found, together with whoever wants the same. OUT_OF_MEMORY or
 * SHUTTING_DOWN, and then `done` is not called. */
int modules_load(struct modules *modules, const struct module_wish *wish, struct module_wait *wait,
                 struct error *error);
/* Unload all that nobody uses, for memory. false: there was none. */
bool modules_unload_idle(struct modules *modules);
/* One user less. */
void module_release(struct module *module);

#endif
