#include "tests/support/host_kernel.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/compiler/shared_arrays.h"
#include "preamble/host/host.h"
#include "preamble/preamble.h"

extern char **environ;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- files ---- */

static void write_file(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        die(path);
}

static char *read_whole(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t room = 0, size = 0, n = 1;
    if (!file)
        die(path);
    while (n > 0) {
        room = room * 2 + 4096;
        bytes = realloc(bytes, room);
        if (!bytes)
            die("realloc");
        n = fread(bytes + size, 1, room - size - 1, file);
        size += n;
        if (size < room - 1)
            break;
    }
    fclose(file);
    bytes[size] = '\0';
    if (ret_size)
        *ret_size = size;
    return bytes;
}

char *host_kernel_read(const char *path)
{
    char whole[1024];
    snprintf(whole, sizeof whole, SOURCE_ROOT "/%s", path);
    return read_whole(whole, NULL);
}

static void write_texts(const char *folder)
{
    char path[1024];
    static const char *const folders[] = {"fusiond", "fusiond/host"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        if (mkdir(path, 0700) < 0)
            die(path);
    }
    for (size_t i = 0; i < host_text_count; i++)
        write_file(folder, host_texts()[i].include, host_texts()[i].text, host_texts()[i].size);
    for (size_t i = 0; i < preamble_count; i++)
        write_file(folder, preamble_modules()[i].include, preamble_modules()[i].text, preamble_modules()[i].size);
}

static void write_program(const char *folder, const struct host_kernel_source *source)
{
    char path[1024];
    const char *prefix = source->index_bits ? "fusiond::" : "";
    snprintf(path, sizeof path, "%s/fusion.cu", folder);
    FILE *out = fopen(path, "wb");
    if (!out)
        die(path);
    fprintf(out, "#include \"%s\"\n", FUSIOND_HOST_INCLUDE);
    if (source->index_bits) {
        uint8_t used[PREAMBLE_MAX];
        size_t n = preamble_closure(source->code, strlen(source->code), used);
        fprintf(out, "#include \"fusiond/index_int%d.cuh\"\n", source->index_bits);
        for (size_t i = 0; i < n; i++)
            fprintf(out, "#include \"%s\"\n", preamble_modules()[used[i]].include);
        fprintf(out, "namespace fusiond {\n#line 1 \"fusion.cu\"\n%s\n}\n", source->code);
    } else {
        fprintf(out, "#line 1 \"fusion.cu\"\n%s\n", source->code);
    }
    fputs("FUSIOND_HOST_IMAGE_BEGIN\n", out);
    for (const char *const *entry = source->entries; *entry; entry++)
        fprintf(out, "FUSIOND_HOST_ENTRY(\"%s\", %s%s)\n", *entry, prefix, *entry);
    fputs("FUSIOND_HOST_IMAGE_END\n", out);
    if (fclose(out) != 0)
        die(path);
}

/* ---- tools ---- */

#define MAX_ARGUMENTS 128

struct arguments {
    const char *list[MAX_ARGUMENTS + 1];
    size_t n;
};

static void add(struct arguments *arguments, const char *const *list)
{
    for (; list && *list && arguments->n < MAX_ARGUMENTS; list++)
        arguments->list[arguments->n++] = *list;
}

/* Run g++ in the folder, with what it says in `said`. */
static bool run_tool(const char *folder, const struct arguments *arguments)
{
    char said[1024];
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    snprintf(said, sizeof said, "%s/said", folder);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, 1, said, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int failed = posix_spawnp(&pid, "g++", &actions, NULL, (char *const *)(void *)arguments->list, environ);
    posix_spawn_file_actions_destroy(&actions);
    return !failed && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool compile(const char *folder, const struct host_kernel_source *source)
{
    static const char *const driver[] = {"g++", NULL};
    static const char *const rest[] = {"-I", ".", "-c", "-o", "object.o", "fusion.cu", NULL};
    struct arguments arguments = {0};
    add(&arguments, driver);
    add(&arguments, host_compile_arguments);
    add(&arguments, source->defines);
    add(&arguments, rest);
    return run_tool(folder, &arguments);
}

static bool join(const char *folder)
{
    static const char *const driver[] = {"g++", NULL};
    static const char *const rest[] = {"-o", "image.so", "object.o", "shared.s", NULL};
    struct arguments arguments = {0};
    struct error error;
    char path[1024], *assembly;
    size_t size, assembly_size;
    snprintf(path, sizeof path, "%s/object.o", folder);
    char *object = read_whole(path, &size);
    if (shared_arrays_define(object, size, &assembly, &assembly_size, &error) < 0)
        die(error.text);
    write_file(folder, "shared.s", assembly, assembly_size);
    free(assembly);
    free(object);
    add(&arguments, driver);
    add(&arguments, host_link_arguments);
    add(&arguments, rest);
    add(&arguments, host_link_libraries);
    return run_tool(folder, &arguments);
}

/* ---- images ---- */

/* They live until the process ends, and something must point to them. */
#define MAX_IMAGES 256
static struct host_image *images[MAX_IMAGES];
static size_t n_images;

static struct host_image *load(const char *folder, char log[static HOST_KERNEL_LOG])
{
    char path[1024];
    struct host_image *image = NULL;
    struct error error;
    size_t size;
    snprintf(path, sizeof path, "%s/image.so", folder);
    char *bytes = read_whole(path, &size);
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        die("memfd");
    free(bytes);
    if (n_images == MAX_IMAGES)
        die("too many images");
    if (host_image_load(fd, &image, &error) < 0)
        snprintf(log, HOST_KERNEL_LOG, "%s", error.text);
    else
        images[n_images++] = image;
    close(fd);
    return image;
}

static void remove_folder(const char *folder)
{
    const char *const argv[] = {"rm", "-rf", folder, NULL};
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, "rm", NULL, NULL, (char *const *)(void *)argv, environ) == 0)
        waitpid(pid, &status, 0);
}

struct host_image *host_kernel_build(const struct host_kernel_source *source, char log[static HOST_KERNEL_LOG])
{
    char folder[] = "/tmp/host_kernel.XXXXXX", path[1024];
    struct host_image *image = NULL;
    log[0] = '\0';
    if (!mkdtemp(folder))
        die(folder);
    write_texts(folder);
    write_program(folder, source);
    if (compile(folder, source) && join(folder)) {
        image = load(folder, log);
    } else {
        snprintf(path, sizeof path, "%s/said", folder);
        char *said = access(path, R_OK) == 0 ? read_whole(path, NULL) : NULL;
        snprintf(log, HOST_KERNEL_LOG, "%s", said ? said : "g++ cannot be run");
        free(said);
    }
    remove_folder(folder);
    return image;
}

bool host_kernel_is_missing(char why[static 256])
{
    static const char *const places[] = {"/usr/local/bin/g++", "/usr/bin/g++", "/bin/g++"};
    for (size_t i = 0; i < 3; i++) {
        if (access(places[i], X_OK) == 0)
            return false;
    }
    snprintf(why, 256, "no g++");
    return true;
}

/* ---- runs ---- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;
    char why[512];
};

static void on_done(void *context, const char *why)
{
    struct waiter *waiter = context;
    pthread_mutex_lock(&waiter->lock);
    snprintf(waiter->why, sizeof waiter->why, "%s", why ? why : "");
    waiter->over = true;
    pthread_cond_signal(&waiter->ended);
    pthread_mutex_unlock(&waiter->lock);
}

/* Standard output carries the test's report. */
static char printed[1 << 16];
static size_t printed_size;

static void on_print(void *context, const char *text, size_t size)
{
    (void)context;
    if (size < sizeof printed - printed_size) {
        memcpy(printed + printed_size, text, size);
        printed_size += size;
    }
    printed[printed_size] = '\0';
}

const char *host_kernel_printed(void)
{
    return printed;
}

const char *host_kernel_run(const struct host_kernel_run *run)
{
    static struct host_pool *pool;
    static struct waiter waiter = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    static struct error error;
    if (!pool && host_pool_create(&(struct host_pool_options){.threads = 4, .print = on_print}, &pool, &error) < 0)
        return error.text;
    printed_size = 0;
    printed[0] = '\0';
    struct host_launch launch = {
        .image = run->image,
        .entry = run->entry ? host_image_find(run->image, run->entry, strlen(run->entry)) : NULL,
        .dynamic_shared = run->dynamic_shared,
        .cooperative = run->cooperative,
        .arguments = run->arguments,
        .done = on_done,
        .context = &waiter,
    };
    if (!launch.entry)
        return "the image has no such entry";
    for (int i = 0; i < 3; i++) {
        launch.grid[i] = run->grid[i] ? run->grid[i] : 1;
        launch.block[i] = run->block[i] ? run->block[i] : 1;
    }
    waiter.over = false;
    if (host_grid_run(pool, &launch, &error) < 0)
        return error.text;
    pthread_mutex_lock(&waiter.lock);
    while (!waiter.over)
        pthread_cond_wait(&waiter.ended, &waiter.lock);
    pthread_mutex_unlock(&waiter.lock);
    return waiter.why[0] ? waiter.why : NULL;
}
