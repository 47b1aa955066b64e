/* Loading a fetched kernel into a CUDA context of this process, and launching it there. */
#include "daemon/launch/launch.h"

#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/fusion.h"
#include "client/kernel.h"
#include "daemon/resolve/registers.h"

/* The driver's messages while it loads; longer ones are cut by the driver itself. */
#define LOAD_LOG 4096

_Static_assert(sizeof(struct fusiond_argument) == sizeof(struct argument), "the same struct under two names");
_Static_assert(offsetof(struct fusiond_argument, address) == offsetof(struct argument, address), "address");
_Static_assert(offsetof(struct fusiond_argument, sizes) == offsetof(struct argument, sizes), "sizes");
_Static_assert(offsetof(struct fusiond_argument, strides) == offsetof(struct argument, strides), "strides");
_Static_assert(offsetof(struct fusiond_argument, scalar) == offsetof(struct argument, scalar), "scalar");
_Static_assert(offsetof(struct fusiond_argument, scalar_size) == offsetof(struct argument, scalar_size), "size");

/* A CUDA function and what it may be launched with. */
struct loaded_entry {
    void *function;
    struct launch_limits limits;
};

/* Owner: the caller of fusiond_load. */
struct fusiond_module {
    const struct driver *driver;
    int device;    /* the driver's handle */
    void *context; /* that the module is loaded in */
    bool primary;  /* the context is a retained primary one */
    void *module;  /* NULL: not loaded */
    enum index_type index_type;
    size_t n;
    struct loaded_entry *entries;
};

/* ---- loading ---- */

static int enter(const struct fusiond_module *module, struct error *error)
{
    int result = module->driver->context_push(module->context);
    return result == 0 ? 0 : driver_failed(module->driver, "cuCtxPushCurrent", result, error);
}

static void leave(const struct fusiond_module *module)
{
    void *popped;
    module->driver->context_pop(&popped);
}

static int choose_context(struct fusiond_module *module, int ordinal, struct error *error)
{
    const struct driver *driver = module->driver;
    int result;
    if (ordinal < 0) {
        result = driver->context_get_current(&module->context);
        if (result == 0 && !module->context)
            return error_set(error, STATUS_INVALID_LAUNCH, "device: -1, but no CUDA context is current");
        if (result == 0)
            result = driver->context_get_device(&module->device);
        return result == 0 ? 0 : driver_failed(driver, "cuCtxGetDevice", result, error);
    }
    result = driver->device_get(&module->device, ordinal);
    if (result != 0) {
        driver_failed(driver, "cuDeviceGet", result, error);
        return error_wrap(error, "device %d", ordinal);
    }
    result = driver->primary_context_retain(&module->context, module->device);
    module->primary = result == 0;
    return result == 0 ? 0 : driver_failed(driver, "cuDevicePrimaryCtxRetain", result, error);
}

/* What the compiler was not told, because it made no machine code. */
static int add_ptx_options(const struct fusiond_module *module, const struct fusiond_kernel *kernel, int *options,
                           void **values, unsigned *n, struct error *error)
{
    unsigned capability;
    if (driver_capability(module->driver, module->device, &capability, error) < 0)
        return -1;
    unsigned limit = register_limit(capability, kernel->block_size, kernel->max_registers);
    if (limit) {
        options[*n] = JIT_MAX_REGISTERS;
        values[(*n)++] = (void *)(uintptr_t)limit;
    }
    if (kernel->level) {
        options[*n] = JIT_OPTIMIZATION_LEVEL;
        values[(*n)++] = (void *)(uintptr_t)(kernel->level - 1);
    }
    return 0;
}

static int load_image(struct fusiond_module *module, const struct fusiond_kernel *kernel, const void *image,
                      struct error *error)
{
    char log[LOAD_LOG] = "";
    int options[4] = {JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_SIZE};
    void *values[4] = {log, (void *)(uintptr_t)sizeof log};
    unsigned n = 2;
    if (kernel->message.image_kind == IMAGE_KIND_PTX && add_ptx_options(module, kernel, options, values, &n, error) < 0)
        return -1;
    int result = module->driver->module_load(&module->module, image, n, options, values);
    if (result == 0)
        return 0;
    module->module = NULL;
    driver_failed(module->driver, "cuModuleLoadDataEx", result, error);
    log[sizeof log - 1] = '\0';
    return log[0] ? error_set(error, STATUS_DRIVER, "cuModuleLoadDataEx: %d: %.400s", result, log) : -1;
}

static int find_functions(struct fusiond_module *module, const struct fusiond_kernel *kernel, struct error *error)
{
    module->n = fusiond_kernel_entries(kernel);
    module->entries = calloc(module->n + 1, sizeof *module->entries);
    if (!module->entries)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu entries", module->n);
    for (size_t i = 0; i < module->n; i++) {
        struct fusiond_entry entry = fusiond_kernel_entry(kernel, i);
        struct loaded_entry *loaded = &module->entries[i];
        int result = module->driver->module_get_function(&loaded->function, module->module, entry.lowered);
        if (result != 0) {
            driver_failed(module->driver, "cuModuleGetFunction", result, error);
            return error_wrap(error, "entry %s", entry.name);
        }
        if (launch_limits_read(module->driver, module->device, loaded->function, &loaded->limits, error) < 0)
            return -1;
    }
    return 0;
}

static int load(struct fusiond_module *module, const struct fusiond_kernel *kernel, int ordinal, struct error *error)
{
    size_t size;
    char *text = NULL;
    const void *image = fusiond_kernel_image(kernel, &size);
    if (!image)
        return error_set(error, STATUS_INVALID_LAUNCH, "kernel %.12s was fetched without its image",
                         fusiond_kernel_key(kernel));
    if (!(module->driver = driver_get(error)) || choose_context(module, ordinal, error) < 0)
        return -1;
    /* PTX is a text for the driver; what the daemon sends does not end with a NUL. */
    if (kernel->message.image_kind == IMAGE_KIND_PTX) {
        image = text = strndup(image, size);
        if (!text)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes of PTX", size);
    }
    module->index_type = kernel->message.index_type;
    int result = enter(module, error);
    if (result == 0) {
        result = load_image(module, kernel, image, error);
        if (result == 0)
            result = find_functions(module, kernel, error);
        leave(module);
    }
    free(text);
    return result;
}

int fusiond_load(const struct fusiond_kernel *kernel, int device, struct fusiond_module **ret,
                 struct fusiond_error *ret_error)
{
    struct error error = {0};
    int result;
    struct fusiond_module *module = calloc(1, sizeof *module);
    if (!module)
        result = error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a module");
    else
        result = load(module, kernel, device, &error);
    if (result < 0)
        fusiond_module_destroy(module);
    else
        *ret = module;
    return error_export(result, &error, ret_error);
}

void fusiond_module_destroy(struct fusiond_module *module)
{
    struct error ignored;
    if (!module)
        return;
    /* Every error is passed over: the context may be lost, or the driver shut down already. */
    if (module->module && enter(module, &ignored) == 0) {
        module->driver->module_unload(module->module);
        leave(module);
    }
    if (module->primary)
        module->driver->primary_context_release(module->device);
    free(module->entries);
    free(module);
}

void *fusiond_module_function(const struct fusiond_module *module, size_t index)
{
    return module->entries[index].function;
}

/* ---- launching ---- */

static const struct argument *inner(const struct fusiond_argument *arguments)
{
    return (const struct argument *)(const void *)arguments;
}

/* From the fusion's expressions, each within 32 bits as the public struct has it. */
static int evaluate(const struct fusion *message, const struct call *call, struct launch_params *ret,
                    struct error *error)
{
    if (launch_params_evaluate(message->launch, &call->scope, ret, error) < 0)
        return -1;
    const struct launch_limits most = {
        .grid = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
        .block = {1024, 1024, 1024},
        .threads = 1024,
        .dynamic_shared_memory = UINT32_MAX,
    };
    return launch_params_check(ret, &most, error);
}

int fusiond_launch_params(struct fusiond_fusion *fusion, const struct fusiond_argument *arguments, size_t n_arguments,
                          struct fusiond_launch *ret, struct fusiond_error *ret_error)
{
    struct error error = {0};
    struct call call;
    struct launch_params params;
    const struct fusion *message = fusion_message(fusion, &error);
    if (!message || call_init(message, inner(arguments), n_arguments, &call, &error) < 0)
        return error_export(-1, &error, ret_error);
    int result = evaluate(message, &call, &params, &error);
    call_finish(&call);
    if (result == 0) {
        for (int i = 0; i < 3; i++) {
            ret->grid[i] = (unsigned)params.grid[i];
            ret->block[i] = (unsigned)params.block[i];
        }
        ret->dynamic_shared_memory = (unsigned)params.dynamic_shared_memory;
    }
    return error_export(result, &error, ret_error);
}

static struct launch_params given(const struct fusiond_launch *launch)
{
    struct launch_params params = {.dynamic_shared_memory = launch->dynamic_shared_memory};
    for (int i = 0; i < 3; i++) {
        params.grid[i] = launch->grid[i];
        params.block[i] = launch->block[i];
    }
    return params;
}

/* With everything but the context settled. */
static int launch_checked(const struct fusiond_module *module, const struct loaded_entry *entry,
                          const struct fusion *message, const struct argument_bytes *bytes,
                          const struct launch_params *params, void *stream, struct error *error)
{
    if (launch_params_check(params, &entry->limits, error) < 0)
        return -1;
    if (enter(module, error) < 0)
        return -1;
    int result = argument_bytes_check(module->driver, entry->function, message, bytes, error);
    if (result == 0)
        result = launch_kernel(module->driver, entry->function, params, bytes, stream, error);
    leave(module);
    return result;
}

static int launch(const struct fusiond_module *module, size_t index, struct fusiond_fusion *fusion,
                  const struct argument *arguments, size_t n_arguments, const struct fusiond_launch *launch_given,
                  void *stream, struct error *error)
{
    struct call call;
    struct launch_params params;
    struct argument_bytes bytes;
    const struct fusion *message = fusion_message(fusion, error);
    if (!message)
        return -1;
    if (index >= module->n)
        return error_set(error, STATUS_INVALID_LAUNCH, "entry: %zu; the kernel has %zu", index, module->n);
    if (call_init(message, arguments, n_arguments, &call, error) < 0)
        return -1;
    int result = 0;
    if (launch_given)
        params = given(launch_given);
    else
        result = evaluate(message, &call, &params, error);
    if (result == 0)
        result = argument_bytes_init(message, arguments, &call, module->index_type, &bytes, error);
    if (result == 0) {
        result = launch_checked(module, &module->entries[index], message, &bytes, &params, stream, error);
        argument_bytes_finish(&bytes);
    }
    call_finish(&call);
    return result;
}

int fusiond_launch(const struct fusiond_module *module, size_t entry, struct fusiond_fusion *fusion,
                   const struct fusiond_argument *arguments, size_t n_arguments,
                   const struct fusiond_launch *launch_given, void *stream, struct fusiond_error *ret_error)
{
    struct error error = {0};
    int result = launch(module, entry, fusion, inner(arguments), n_arguments, launch_given, stream, &error);
    return error_export(result, &error, ret_error);
}
