#include "daemon/launch/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* A row of the table: where the pointer goes. */
struct entry_point {
    const char *symbol;
    size_t offset;
    bool needed;
};

#define NEEDED true
#define OPTIONAL false
static const struct entry_point entry_points[] = {
#define DRIVER(field, symbol, need, params) {symbol, offsetof(struct driver, field), need},
#include "daemon/launch/driver.def"
#undef DRIVER
};
#undef NEEDED
#undef OPTIONAL

static int find_entry_points(void *library, const char *name, struct driver *driver, struct error *error)
{
    for (size_t i = 0; i < sizeof entry_points / sizeof entry_points[0]; i++) {
        void *symbol = dlsym(library, entry_points[i].symbol);
        if (!symbol && entry_points[i].needed)
            return error_set(error, STATUS_NO_DRIVER, "%s has no %s: the driver is too old", name,
                             entry_points[i].symbol);
        memcpy((char *)driver + entry_points[i].offset, &symbol, sizeof symbol);
    }
    return 0;
}

int driver_open(const char *library, struct driver *ret, struct error *error)
{
    struct driver driver = {0};
    int count = 0;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return error_set(error, STATUS_NO_DRIVER, "no CUDA driver: %s", dlerror());
    if (find_entry_points(handle, library, &driver, error) < 0)
        return -1;
    int result = driver.init(0);
    if (result == 0)
        result = driver.driver_get_version(&driver.version);
    if (result == 0)
        result = driver.device_get_count(&count);
    if (result != 0) {
        driver_failed(&driver, "cuInit", result, error);
        if (error)
            error->code = STATUS_NO_DRIVER;
        return -1;
    }
    if (count == 0)
        return error_set(error, STATUS_NO_DRIVER, "the CUDA driver finds no device");
    *ret = driver;
    return 0;
}

static struct driver the_driver;
static struct error the_error;
static bool opened;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_once(void)
{
    opened = driver_open("libcuda.so.1", &the_driver, &the_error) == 0;
}

const struct driver *driver_get(struct error *error)
{
    pthread_once(&once, open_once);
    if (opened)
        return &the_driver;
    if (error)
        *error = the_error;
    return NULL;
}

int driver_failed(const struct driver *driver, const char *call, int result, struct error *error)
{
    const char *name = NULL, *text = NULL;
    if (driver->get_error_name(result, &name) != 0 || !name)
        name = "CUDA_ERROR";
    if (driver->get_error_string(result, &text) != 0 || !text)
        text = "an error that the driver has no words for";
    return error_set(error, STATUS_DRIVER, "%s: %s (%d): %s", call, name, result, text);
}

int driver_capability(const struct driver *driver, int device, unsigned *ret, struct error *error)
{
    int major = 0, minor = 0;
    int result = driver->device_get_attribute(&major, DEVICE_CAPABILITY_MAJOR, device);
    if (result == 0)
        result = driver->device_get_attribute(&minor, DEVICE_CAPABILITY_MINOR, device);
    if (result != 0)
        return driver_failed(driver, "cuDeviceGetAttribute", result, error);
    *ret = (unsigned)(10 * major + minor);
    return 0;
}

int driver_default_device(const struct driver *driver, int *ret_device, struct error *error)
{
    void *context = NULL;
    int result = driver->context_get_current(&context);
    if (result == 0 && context) {
        result = driver->context_get_device(ret_device);
        return result == 0 ? 0 : driver_failed(driver, "cuCtxGetDevice", result, error);
    }
    result = driver->device_get(ret_device, 0);
    return result == 0 ? 0 : driver_failed(driver, "cuDeviceGet", result, error);
}
