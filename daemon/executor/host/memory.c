#include "daemon/executor/host/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What stands behind a device_memory. */
struct mapping {
    int fd;
    void *at;
    size_t size; /* of the file, and mapped */
};

static int map(int fd, size_t size, uint64_t offset, uint64_t part, struct device_memory *ret, struct error *error)
{
    struct mapping *mapping = malloc(sizeof *mapping);
    if (!mapping)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for a buffer");
    *mapping = (struct mapping){.fd = fd, .size = size};
    mapping->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping->at == MAP_FAILED) {
        int number = errno;
        free(mapping);
        return error_set_errno(error, number == ENOMEM ? STATUS_OUT_OF_MEMORY : STATUS_INVALID_BUFFER, number,
                               "mapping %zu bytes", size);
    }
    *ret = (struct device_memory){
        .address = (uint64_t)(uintptr_t)mapping->at + offset, .size = part, .exportable = true, .own = mapping};
    return 0;
}

int host_memory_allocate(uint64_t size, struct device_memory *ret, struct error *error)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
    uint64_t there = (uint64_t)sysconf(_SC_PHYS_PAGES) * page;
    if (size > there)
        return error_set(error, STATUS_OUT_OF_MEMORY, "a buffer of %llu bytes; the machine has %llu",
                         (unsigned long long)size, (unsigned long long)there);
    int fd = memfd_create("fusiond-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set_errno(error, STATUS_OUT_OF_MEMORY, errno, "a memfd for a buffer");
    /* Its size is settled for ever, so that nobody who maps it can be made to touch what is gone. */
    if (ftruncate(fd, (off_t)whole) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int number = errno;
        close(fd);
        return error_set_errno(error, STATUS_OUT_OF_MEMORY, number, "%llu bytes for a buffer",
                               (unsigned long long)whole);
    }
    if (map(fd, (size_t)whole, 0, size, ret, error) < 0) {
        close(fd);
        return -1;
    }
    return 0;
}

int host_memory_import(const struct device_import *from, struct device_memory *ret, struct error *error)
{
    struct stat status;
    if (from->kind != MEMORY_KIND_MEMFD)
        return error_set(error, STATUS_INVALID_BUFFER, "kind: the host device imports memfds, not %s",
                         memory_kind_word((int)from->kind));
    int seals = fcntl(from->fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return error_set(error, STATUS_INVALID_BUFFER,
                         "fds: the descriptor must be a memfd sealed against shrinking (F_SEAL_SHRINK)");
    if (seals & F_SEAL_WRITE)
        return error_set(error, STATUS_INVALID_BUFFER, "fds: the memfd is sealed against writing");
    if (fstat(from->fd, &status) < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "fds: the size of the memfd");
    if (from->offset > (uint64_t)status.st_size || from->size > (uint64_t)status.st_size - from->offset)
        return error_set(error, STATUS_INVALID_BUFFER, "size: %llu bytes from byte %llu on, but the memfd has %lld",
                         (unsigned long long)from->size, (unsigned long long)from->offset, (long long)status.st_size);
    int own = fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "fds: keeping the memfd");
    if (map(own, (size_t)(from->offset + from->size), from->offset, from->size, ret, error) < 0) {
        close(own);
        return -1;
    }
    return 0;
}

int host_memory_export(const struct device_memory *memory, enum memory_kind *ret_kind, uint64_t *ret_size, int *ret_fd,
                       struct error *error)
{
    const struct mapping *mapping = memory->own;
    int fd = fcntl(mapping->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "a descriptor for the client");
    *ret_kind = MEMORY_KIND_MEMFD;
    *ret_size = mapping->size;
    *ret_fd = fd;
    return 0;
}

void host_memory_release(struct device_memory *memory)
{
    struct mapping *mapping = memory->own;
    munmap(mapping->at, mapping->size);
    close(mapping->fd);
    free(mapping);
    *memory = (struct device_memory){0};
}
