/* Memory of the host device: memfds that executor and clients map. */
#ifndef DAEMON_EXECUTOR_HOST_MEMORY_H
#define DAEMON_EXECUTOR_HOST_MEMORY_H

#include "daemon/executor/device.h"

/* As in device_ops. */
int host_memory_allocate(uint64_t size, struct device_memory *ret, struct error *error);
int host_memory_import(const struct device_import *from, struct device_memory *ret, struct error *error);
int host_memory_export(const struct device_memory *memory, enum memory_kind *ret_kind, uint64_t *ret_size, int *ret_fd,
                       struct error *error);
void host_memory_release(struct device_memory *memory);

#endif
