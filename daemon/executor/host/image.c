#include "daemon/executor/host/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/executor/host/block.h"
#include "daemon/sandbox/under_asan.h"

#if UNDER_ASAN
/* LeakSanitizer falls over the thread-local storage of what is loaded late and has much of it. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "use_tls=0";
}
#endif

struct host_image {
    const struct fusiond_host_image *table;
    size_t thread_local_bytes;
};

/* The size of the thread-local storage, from the program headers. What is not there is 0. */
static size_t read_thread_local_bytes(int fd)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header || header.e_phentsize != sizeof segment)
        return 0;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) == (ssize_t)sizeof segment && segment.p_type == PT_TLS)
            return segment.p_memsz;
    }
    return 0;
}

static int check_table(const struct fusiond_host_image *table, struct error *error)
{
    if (!table)
        return error_set(error, STATUS_INTERNAL, "the image has no symbol %s", FUSIOND_HOST_SYMBOL);
    if (table->abi != FUSIOND_HOST_ABI)
        return error_set(error, STATUS_INTERNAL, "the image speaks ABI %u, this executor %u", table->abi,
                         FUSIOND_HOST_ABI);
    if (table->n_entries == 0 || !table->entries || !table->attach || !table->here)
        return error_set(error, STATUS_INTERNAL, "the image's table is incomplete");
    return 0;
}

int host_image_prepare(struct error *error)
{
    if (dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL))
        return 0;
    return error_set(error, STATUS_SYSTEM, "what kernels for the host are linked with: %.300s", dlerror());
}

int host_image_load(int fd, struct host_image **ret, struct error *error)
{
    char path[64];
    /* Kept for as long as the code is mapped, which is for ever: the dynamic linker knows libraries by their names,
     * and no two may be called alike. */
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return error_set_errno(error, STATUS_SYSTEM, errno, "keeping the image");
    struct host_image *image = calloc(1, sizeof *image);
    snprintf(path, sizeof path, "/proc/self/fd/%d", own);
    void *library = image ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        int status = image ? error_set(error, STATUS_INTERNAL, "loading the image: %.300s", dlerror())
                           : error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an image");
        free(image);
        close(own);
        return status;
    }
    image->table = dlsym(library, FUSIOND_HOST_SYMBOL);
    image->thread_local_bytes = read_thread_local_bytes(own);
    if (check_table(image->table, error) < 0) {
        free(image);
        return -1; /* what is mapped stays, and so does its name */
    }
    image->table->attach(host_block_runtime());
    *ret = image;
    return 0;
}

void host_image_destroy(struct host_image *image)
{
    free(image);
}

const struct fusiond_host_entry *host_image_find(const struct host_image *image, const char *name, size_t size)
{
    for (unsigned i = 0; i < image->table->n_entries; i++) {
        const struct fusiond_host_entry *entry = &image->table->entries[i];
        if (strlen(entry->name) == size && memcmp(entry->name, name, size) == 0)
            return entry;
    }
    return NULL;
}

size_t host_image_shared_bytes(const struct host_image *image)
{
    size_t dynamic = host_image_has_dynamic_shared(image) ? FUSIOND_HOST_DYNAMIC_BYTES : 0;
    return image->thread_local_bytes - dynamic;
}

int host_image_has_dynamic_shared(const struct host_image *image)
{
    return image->thread_local_bytes >= FUSIOND_HOST_DYNAMIC_BYTES;
}

void host_image_here(const struct host_image *image, struct fusiond_host_here *ret)
{
    image->table->here(ret);
}
