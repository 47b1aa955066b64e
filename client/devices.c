/* What devices there are, and what one of them is. */
#include <stdlib.h>

#include "client/connection.h"
#include "client/device.h"
#include "client/device_list.h"
#include "client/error.h"

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static struct fusiond_device_info info_of(const struct device *device)
{
    return (struct fusiond_device_info){
        .kind = device->kind ? device_kind_word((int)device->kind) : "cuda",
        .ordinal = (unsigned)device->ordinal,
        .name = or_empty(device->name.at),
        .uuid = or_empty(device->uuid.at),
        .capability = (unsigned)device->capability,
        .memory_bytes = device->memory_bytes,
        .multiprocessors = (unsigned)device->multiprocessors,
        .driver = (unsigned)device->driver,
    };
}

int fusiond_devices(struct fusiond_connection *connection, struct fusiond_device_list **ret,
                    struct fusiond_error *ret_error)
{
    struct error error = {0};
    int result;
    struct fusiond_device_list *list = calloc(1, sizeof *list);
    if (!list || !(list->zone = msgpack_zone_new(4096)))
        result = error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a list");
    else
        result = connection_ask(connection, METHOD_DEVICES, NULL, list->zone, &list->message, &error);
    if (result < 0)
        fusiond_device_list_destroy(list);
    else
        *ret = list;
    return error_export(result, &error, ret_error);
}

void fusiond_device_list_destroy(struct fusiond_device_list *list)
{
    if (!list)
        return;
    if (list->zone)
        msgpack_zone_free(list->zone);
    free(list);
}

size_t fusiond_device_list_count(const struct fusiond_device_list *list)
{
    return list->message.n_devices;
}

struct fusiond_device_info fusiond_device_list_at(const struct fusiond_device_list *list, size_t index)
{
    return info_of(&list->message.devices[index]);
}

size_t fusiond_device_list_problems(const struct fusiond_device_list *list)
{
    return list->message.n_problems;
}

const char *fusiond_device_list_problem(const struct fusiond_device_list *list, size_t index)
{
    return list->message.problems[index].at;
}

bool fusiond_device_list_mps(const struct fusiond_device_list *list)
{
    return list->message.mps;
}

struct fusiond_device_info fusiond_device_info(const struct fusiond_device *device)
{
    return info_of(&device->facts);
}

const char *fusiond_device_target(const struct fusiond_device *device)
{
    return device->target;
}

unsigned fusiond_device_executor(const struct fusiond_device *device)
{
    return device->executor_pid;
}
