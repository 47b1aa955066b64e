#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/executor/cuda/device.h"

/* Of each of the loader's logs. */
#define LOG_ROOM 8192
/* CUDA_ERROR_UNSUPPORTED_PTX_VERSION */
#define TOO_NEW 222
/* What every function may use without being asked. */
#define DEFAULT_DYNAMIC_SHARED (48 << 10)

/* What a function was allowed to use as dynamic shared memory. */
struct allowance {
    struct list link;
    void *function;
    int64_t bytes;
};

struct device_module {
    struct cuda_device *device;
    void *module;
    struct list allowances; /* struct allowance, of the entries that were looked up */
};

/* The loader's own words, in one line. */
static int refuse(struct cuda_device *device, int result, const char *log, struct error *error)
{
    char line[300];
    int version = device->driver->version;
    if (result == TOO_NEW)
        return error_set(error, STATUS_LOAD_FAILED,
                         "the kernel is PTX of a newer CUDA than the driver's (%d.%d); compile it for the device's own "
                         "target, or with an older NVRTC",
                         version / 1000, version % 1000 / 10);
    cuda_check(device, "cuModuleLoadDataEx", result, error);
    if (!error || error->code == STATUS_OUT_OF_MEMORY)
        return -1;
    snprintf(line, sizeof line, "%.299s", log);
    for (char *c = line; *c; c++)
        *c = (unsigned char)*c < ' ' ? ' ' : *c;
    struct error said = *error;
    return error_set(error, STATUS_LOAD_FAILED, "%.180s%s%s", said.text, line[0] ? ": " : "", line);
}

static int load(struct cuda_device *device, const void *image, const struct load_options *wanted, void **ret,
                struct error *error)
{
    char info[LOG_ROOM] = "", errors[LOG_ROOM] = "";
    int options[6] = {JIT_INFO_LOG_BUFFER, JIT_INFO_LOG_SIZE, JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_SIZE};
    void *values[6] = {info, (void *)(uintptr_t)sizeof info, errors, (void *)(uintptr_t)sizeof errors};
    unsigned n = 4;
    if (wanted->max_registers) {
        options[n] = JIT_MAX_REGISTERS;
        values[n++] = (void *)(uintptr_t)wanted->max_registers;
    }
    if (wanted->level) {
        options[n] = JIT_OPTIMIZATION_LEVEL;
        values[n++] = (void *)(uintptr_t)(wanted->level - 1);
    }
    int result = device->driver->module_load(ret, image, n, options, values);
    return result == 0 ? 0 : refuse(device, result, errors[0] ? errors : info, error);
}

int cuda_load(struct backend *backend, enum image_kind kind, int fd, size_t size, const struct load_options *options,
              struct device_module **ret, struct error *error)
{
    struct cuda_device *device = cuda_device_of(backend);
    struct device_module *module = calloc(1, sizeof *module);
    if (!module)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a module");
    /* PTX is a text and must end with a NUL: a page behind the file, or the rest of its last one, has them. */
    char *image = mmap(NULL, size + 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image != MAP_FAILED && size > 0 && mmap(image, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(image, size + 4096);
        image = MAP_FAILED;
    }
    if (image == MAP_FAILED) {
        free(module);
        return error_set_errno(error, STATUS_OUT_OF_MEMORY, errno, "mapping an image of %zu bytes", size);
    }
    static const struct load_options none;
    int status = load(device, image, kind == IMAGE_KIND_PTX ? options : &none, &module->module, error);
    munmap(image, size + 4096);
    if (status < 0) {
        free(module);
        return -1;
    }
    module->device = device;
    list_init(&module->allowances);
    *ret = module;
    return 0;
}

void cuda_unload(struct backend *backend, struct device_module *module)
{
    struct cuda_device *device = cuda_device_of(backend);
    struct list *link;
    /* An unload that fails leaves nothing that could be done about it. */
    device->driver->module_unload(module->module);
    while ((link = list_pop(&module->allowances)))
        free(container_of(link, struct allowance, link));
    free(module);
}

/* The sizes of the parameters, until the driver says that there is no more. */
static int read_params(struct cuda_device *device, void *function, struct device_function *ret, struct error *error)
{
    size_t offset, size;
    if (!device->driver->function_get_param_info)
        return 0;
    while (device->driver->function_get_param_info(function, ret->n_params, &offset, &size) == 0) {
        if (ret->n_params == LIMIT_PARAMS)
            return error_set(error, STATUS_LOAD_FAILED, "the kernel has more than %u parameters", LIMIT_PARAMS);
        ret->param_sizes[ret->n_params++] = size;
    }
    ret->has_params = true;
    return 0;
}

static struct allowance *allowance_of(struct device_module *module, void *function)
{
    for (struct list *link = module->allowances.next; link != &module->allowances; link = link->next) {
        if (container_of(link, struct allowance, link)->function == function)
            return container_of(link, struct allowance, link);
    }
    struct allowance *allowance = calloc(1, sizeof *allowance);
    if (!allowance)
        return NULL;
    allowance->function = function;
    allowance->bytes = DEFAULT_DYNAMIC_SHARED;
    list_push(&module->allowances, &allowance->link);
    return allowance;
}

int cuda_find(struct device_module *module, const char *lowered, const char *name, struct device_function *ret,
              struct error *error)
{
    struct cuda_device *device = module->device;
    struct device_function function = {0};
    void *handle;
    int registers = 0, statics = 0;
    int result = device->driver->module_get_function(&handle, module->module, lowered);
    if (result != 0) {
        cuda_check(device, "cuModuleGetFunction", result, error);
        if (error)
            error->code = STATUS_LOAD_FAILED;
        return error_wrap(error, "entry %.100s", name);
    }
    struct allowance *allowance = allowance_of(module, handle);
    if (!allowance)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a function");
    result = device->driver->function_get_attribute(&registers, FUNCTION_REGISTERS, handle);
    if (result == 0)
        result = device->driver->function_get_attribute(&statics, FUNCTION_STATIC_SHARED, handle);
    if (cuda_check(device, "cuFuncGetAttribute", result, error) < 0 ||
        launch_limits_read(device->driver, device->device, handle, &function.limits, error) < 0 ||
        read_params(device, handle, &function, error) < 0)
        return -1;
    function.handle = handle;
    function.own = allowance;
    function.registers = (unsigned)registers;
    function.static_shared_memory = (uint32_t)statics;
    *ret = function;
    return 0;
}

int cuda_allow_shared(struct cuda_device *device, const struct device_function *function, int64_t bytes,
                      struct error *error)
{
    struct allowance *allowance = (struct allowance *)function->own;
    if (bytes <= allowance->bytes)
        return 0;
    int result = device->driver->function_set_attribute(function->handle, FUNCTION_MAX_DYNAMIC_SHARED, (int)bytes);
    if (cuda_check(device, "cuFuncSetAttribute", result, error) < 0)
        return -1;
    allowance->bytes = bytes;
    return 0;
}
