/* A fusion as a client defined it: a kernel's entry and how to launch it. */
#ifndef DAEMON_EXECUTOR_DEFINED_H
#define DAEMON_EXECUTOR_DEFINED_H

#include "daemon/executor/modules.h"
#include "daemon/executor/table.h"

/* What launches need to know of a parameter without looking for it. */
struct defined_param {
    bool read;    /* a scalar that some launch-time expression reads */
    bool zero;    /* an intermediate that begins zeroed */
    size_t alias; /* of an output: the tensor that it is written into; else the number of parameters */
};

/* What is to be done when the kernel is PTX; 0: not said. */
struct load_wish {
    unsigned max_registers, block_size;
    bool has_opt_level;
    unsigned opt_level;
};

/* Owned by its session. */
struct defined {
    UT_hash_handle hh;
    uint64_t number;
    struct module *module; /* NULL until the kernel is loaded */
    struct device_function function;
    struct fusion fusion; /* params, outputs, intermediates and launch alone; texts in the zone */
    struct text entry;    /* as it was asked for; absent: the first one */
    struct text label;
    struct load_wish options;
    struct defined_param *params; /* one per parameter */
    size_t n_shapes;              /* sizes and strides of all outputs */
    msgpack_zone zone;
};

/* Read and check a fusion_define_request: names, ranks, what is described and what is not, every expression. The kernel
 * that it wants is told in ret_wish, whose texts are the fusion's. INVALID_FIELD, INVALID_LAUNCH. */
int defined_create(struct bytes params, struct defined **ret, struct module_wish *ret_wish, struct error *error);
/* NULL is fine. */
void defined_destroy(struct defined *defined);

/* Bind to a loaded module, of which it becomes the user it was given. NOT_FOUND when there is no such entry;
 * INVALID_LAUNCH when the kernel's parameters have other sizes, which is what another rank or index type leads to. On
 * failure the module stays the caller's. */
int defined_bind(struct defined *defined, struct module *module, struct error *error);

/* "row_softmax (c0de777777777777)", for messages. Returns ret. */
const char *defined_show(const struct defined *defined, char *ret, size_t room);

#endif
