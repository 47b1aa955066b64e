/* Launching on a device of the daemon. The executor allocates the outputs: their sizes must be those of the call. */
#include <stdlib.h>
#include <string.h>

#include "client/fusionctl/run_device.h"

/* Launches before the timed ones: the first may find the device idle. */
#define WARMUPS 2

struct remote {
    struct run_device base;
    struct fusiond_device *device;
    struct fusiond_defined *defined;
    const struct run_call *call;
    struct fusiond_device_argument *arguments; /* one per parameter; inputs own their buffers */
    struct fusiond_launched *launched;         /* of the first launch: owns the outputs' buffers */
};

static struct remote *remote_of(struct run_device *device)
{
    return (struct remote *)device;
}

static int load(struct run_device *device, struct fusiond_fusion *fusion, const struct fusiond_kernel *kernel,
                struct error *error)
{
    struct remote *remote = remote_of(device);
    struct fusiond_error public_error;
    if (fusiond_define(remote->device, fusiond_kernel_key(kernel), NULL, fusion, &remote->defined, &public_error) < 0)
        return run_error(&public_error, error);
    return 0;
}

static int place_tensor(struct remote *remote, const struct run_tensor *tensor, struct fusiond_buffer **ret,
                        struct error *error)
{
    struct fusiond_error public_error;
    /* An empty tensor has an address, too. */
    if (fusiond_buffer_allocate(remote->device, tensor->size ? tensor->size : 1, false, ret, &public_error) < 0 ||
        fusiond_buffer_write(*ret, 0, tensor->bytes, tensor->size, NULL, &public_error) < 0)
        return run_error(&public_error, error);
    return 0;
}

static int place(struct run_device *device, struct run_call *call, const struct run_data *data, struct error *error)
{
    struct remote *remote = remote_of(device);
    remote->call = call;
    remote->arguments = calloc(call->n + 1, sizeof *remote->arguments);
    if (!remote->arguments)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu parameters", call->n);
    for (size_t i = 0; i < call->n; i++) {
        const struct param *param = &call->message->params[i];
        struct fusiond_device_argument *argument = &remote->arguments[i];
        argument->sizes = call->arguments[i].sizes;
        argument->strides = call->arguments[i].strides;
        argument->scalar = call->arguments[i].scalar;
        argument->scalar_size = call->arguments[i].scalar_size;
        if (param->kind == PARAM_KIND_TENSOR && place_tensor(remote, &data->tensors[i], &argument->buffer, error) < 0)
            return error_wrap(error, "tensor %s", param->name.at);
    }
    return 0;
}

static int launch(struct run_device *device, struct fusiond_launch *ret, struct error *error)
{
    struct remote *remote = remote_of(device);
    struct fusiond_error public_error;
    struct fusiond_launch_options options = {.wait = true, .fill = FUSIOND_FILL_NAN};
    if (fusiond_device_launch(remote->defined, remote->arguments, remote->call->n, &options, &remote->launched,
                              &public_error) < 0)
        return run_error(&public_error, error);
    *ret = fusiond_launched_params(remote->launched);
    return 0;
}

/* The executor has computed the sizes itself. */
static int check_shape(const struct param *param, const struct shape *shape, const struct fusiond_output *output,
                       size_t size, struct error *error)
{
    bool same = output->rank == shape->rank && output->alloc_rank == shape->alloc_rank && output->bytes == size;
    for (unsigned i = 0; same && i < shape->rank; i++)
        same = output->sizes[i] == shape->sizes[i];
    for (unsigned i = 0; same && i < shape->alloc_rank; i++)
        same = output->strides[i] == shape->strides[i];
    if (!same)
        return error_set(error, STATUS_INTERNAL,
                         "output %s: the executor launched it with other sizes or strides than the fusion gives here",
                         param->name.at);
    return 0;
}

static int read(struct run_device *device, struct run_data *data, struct error *error)
{
    struct remote *remote = remote_of(device);
    struct fusiond_error public_error;
    size_t outputs = 0;
    for (size_t i = 0; i < data->n; i++)
        outputs += remote->call->message->params[i].kind == PARAM_KIND_OUTPUT;
    if (fusiond_launched_outputs(remote->launched) != outputs)
        return error_set(error, STATUS_INTERNAL, "the executor launched %zu outputs; the fusion has %zu",
                         fusiond_launched_outputs(remote->launched), outputs);
    for (size_t i = 0; i < outputs; i++) {
        struct fusiond_output output = fusiond_launched_output(remote->launched, i);
        const struct param *param = &remote->call->message->params[output.param];
        struct run_tensor *tensor = &data->tensors[output.param];
        if (check_shape(param, &remote->call->call.shapes[output.param], &output, tensor->size, error) < 0)
            return -1;
        if (fusiond_buffer_read(output.buffer, output.offset, tensor->bytes, tensor->size, NULL, &public_error) < 0) {
            run_error(&public_error, error);
            return error_wrap(error, "output %s", param->name.at);
        }
    }
    return 0;
}

static int time_launches(struct run_device *device, unsigned n, uint64_t *ret_ns, struct error *error)
{
    struct remote *remote = remote_of(device);
    struct fusiond_error public_error;
    struct fusiond_launched *timed;
    const uint64_t *times;
    /* Into the memory that is there, or each launch would allocate its own. */
    for (size_t i = 0; i < fusiond_launched_outputs(remote->launched); i++) {
        struct fusiond_output output = fusiond_launched_output(remote->launched, i);
        if (output.allocated) {
            remote->arguments[output.param].buffer = output.buffer;
            remote->arguments[output.param].offset = output.offset;
        }
    }
    if (fusiond_device_run(remote->defined, remote->arguments, remote->call->n, NULL, WARMUPS, n, &timed,
                           &public_error) < 0)
        return run_error(&public_error, error);
    size_t got = fusiond_launched_times(timed, &times);
    if (got == n)
        memcpy(ret_ns, times, n * sizeof *ret_ns);
    fusiond_launched_destroy(timed);
    if (got != n)
        return error_set(error, STATUS_INTERNAL, "the executor timed %zu launches of %u", got, n);
    run_sort_times(ret_ns, n);
    return 0;
}

static void destroy(struct run_device *device)
{
    struct remote *remote = remote_of(device);
    fusiond_launched_destroy(remote->launched);
    for (size_t i = 0; remote->arguments && i < remote->call->n; i++) {
        if (remote->call->message->params[i].kind == PARAM_KIND_TENSOR)
            fusiond_buffer_free(remote->arguments[i].buffer);
    }
    free(remote->arguments);
    fusiond_defined_destroy(remote->defined);
    fusiond_device_close(remote->device);
    free(remote);
}

static const struct run_device_ops remote_ops = {
    .load = load, .place = place, .launch = launch, .read = read, .time = time_launches, .destroy = destroy};

int run_daemon_open(struct fusiond_connection *connection, const char *name, struct run_device **ret,
                    struct error *error)
{
    struct fusiond_error public_error;
    struct remote *remote = calloc(1, sizeof *remote);
    if (!remote)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a device");
    if (fusiond_device_open(connection, name, NULL, &remote->device, &public_error) < 0) {
        free(remote);
        return run_error(&public_error, error);
    }
    remote->base.ops = &remote_ops;
    remote->base.target = fusiond_device_target(remote->device);
    snprintf(remote->base.name, sizeof remote->base.name, "%s", fusiond_device_info(remote->device).name);
    *ret = &remote->base;
    return 0;
}
