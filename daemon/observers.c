#include "daemon/observers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/list.h"
#include "daemon/base/log.h"
#include "daemon/kernel_names.h"
#include "daemon/resolve/image_names.h"

/* Records that may wait, and their bytes together: more is dropped. */
#define MAX_WAITING 64u
#define MAX_BYTES (256ull << 20)
/* What is kept of a program's stderr. */
#define SAID_MAX 512u
#define LOWEST_NICE 19
#define IDLE_IO (3 << 13)

/* The descriptors that a program gets. */
enum { GIVE_RECORD = 0, GIVE_IMAGE = 3, GIVE_PTX = 4, GIVE_CODE = 5, GIVEN = 6 };

/* One record on its way. Owner: the list, or `current`. */
struct observation {
    struct list link;
    int fds[GIVEN]; /* -1: it has no such part */
    uint64_t bytes;
    size_t next; /* the observer that is to see it */
};

struct observers {
    uv_loop_t *loop;
    struct observers_options options;
    struct list waiting;
    size_t n_waiting;
    uint64_t bytes;
    bool stopping;
    /* The one that runs. */
    struct observation *current; /* NULL: none */
    uv_process_t process;
    uv_pipe_t complaints;
    uv_timer_t deadline;
    int open_handles;
    bool timed_out;
    char said[SAID_MAX + 1];
    size_t n_said;
};

static void advance(struct observers *observers);

struct observers *observers_create(uv_loop_t *loop, const struct observers_options *options)
{
    struct observers *observers = calloc(1, sizeof *observers);
    if (!observers)
        return NULL;
    observers->loop = loop;
    observers->options = *options;
    list_init(&observers->waiting);
    return observers;
}

static void destroy_observation(struct observation *observation)
{
    for (int i = 0; i < GIVEN; i++)
        if (observation->fds[i] >= 0)
            close(observation->fds[i]);
    free(observation);
}

static void drop_waiting(struct observers *observers)
{
    struct list *link;
    while ((link = list_pop(&observers->waiting)))
        destroy_observation(container_of(link, struct observation, link));
    observers->n_waiting = 0;
}

void observers_destroy(struct observers *observers)
{
    if (!observers)
        return;
    drop_waiting(observers);
    free(observers);
}

/* ---- a record's parts, as files that cannot change ---- */

/* Another description of the same memory, so that nobody shares its offset. */
static int reopen(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}

static int seal_bytes(const void *bytes, size_t size)
{
    size_t at = 0;
    ssize_t n = 1;
    int fd = memfd_create("fusiond-record", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    while (fd >= 0 && at < size && n > 0) {
        n = write(fd, (const char *)bytes + at, size - at);
        at += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0 && at == size)
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    int again = at == size ? reopen(fd) : -1;
    if (fd >= 0)
        close(fd);
    return again;
}

/* The record without its long parts, as JSON. */
static int write_record(const struct kernel *kernel, uint64_t *bytes)
{
    struct kernel record = *kernel;
    char *text = NULL;
    size_t size = 0;
    record.code = record.log = record.before = record.behind = record.program = (struct text){NULL, 0};
    record.image = record.ptx = (struct bytes){NULL, 0};
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return -1;
    message_print(&kernel_type, &record, out, -1);
    if (fclose(out) != 0) {
        free(text);
        return -1;
    }
    int fd = seal_bytes(text, size);
    *bytes += size;
    free(text);
    return fd;
}

/* A part of the image kind with the names in it. */
static int write_image(struct entry_names names, enum image_kind kind, struct bytes part, msgpack_zone *zone,
                       uint64_t *bytes)
{
    struct error error;
    if (!part.at || (names.size && image_names_put(names, kind, part, zone, &part, &error) < 0))
        return -1;
    *bytes += part.size;
    return seal_bytes(part.at, part.size);
}

/* All with the names that its client gave. */
static int write_parts(const struct kernel *stored, struct observation *ret)
{
    msgpack_zone zone;
    struct entry_names names;
    struct kernel kernel;
    struct error error;
    const struct parts parts = {.code = true, .details = true};
    bool good = false;
    if (!msgpack_zone_init(&zone, 4096))
        return -1;
    if (kernel_names_stored(stored, &zone, &names, &error) == 0 &&
        kernel_names_put(stored, names, parts, &zone, &kernel, &error) == 0) {
        ret->fds[GIVE_RECORD] = write_record(&kernel, &ret->bytes);
        ret->fds[GIVE_CODE] = kernel.code.at ? seal_bytes(kernel.code.at, kernel.code.size) : -1;
        ret->fds[GIVE_IMAGE] = write_image(names, stored->image_kind, stored->image, &zone, &ret->bytes);
        ret->fds[GIVE_PTX] = write_image(names, IMAGE_KIND_PTX, stored->ptx, &zone, &ret->bytes);
        ret->bytes += kernel.code.size;
        good = ret->fds[GIVE_RECORD] >= 0 && ret->fds[GIVE_IMAGE] >= 0;
    }
    msgpack_zone_destroy(&zone);
    return good ? 0 : -1;
}

void observers_offer(struct observers *observers, const struct kernel *kernel)
{
    if (!observers || observers->stopping)
        return;
    struct observation *observation = NULL;
    if (observers->n_waiting < MAX_WAITING && observers->bytes < MAX_BYTES)
        observation = calloc(1, sizeof *observation);
    if (!observation) {
        observers->options.stats->observers_dropped_total++;
        return;
    }
    for (int i = 0; i < GIVEN; i++)
        observation->fds[i] = -1;
    if (write_parts(kernel, observation) < 0) {
        observers->options.stats->observers_dropped_total++;
        destroy_observation(observation);
        return;
    }
    list_push(&observers->waiting, &observation->link);
    observers->n_waiting++;
    observers->bytes += observation->bytes;
    advance(observers);
}

/* ---- one program ---- */

static void fail(struct observers *observers, const char *name, const char *why)
{
    observers->options.stats->observers_failed_total++;
    log_event(LOG_WARNING, "observer.failed", "name=%s reason=\"%s\" said=\"%.*s\"", name, why,
              (int)strcspn(observers->said, "\n"), observers->said);
}

static void on_closed(uv_handle_t *handle)
{
    struct observers *observers = handle->data;
    struct observation *observation = observers->current;
    if (--observers->open_handles > 0)
        return;
    observers->current = NULL;
    observation->next++;
    if (observation->next < observers->options.n_specs && !observers->stopping) {
        observation->link.next = observation->link.previous = &observation->link;
        list_push(&observers->waiting, &observation->link);
        observers->n_waiting++;
    } else {
        observers->bytes -= observation->bytes;
        destroy_observation(observation);
    }
    advance(observers);
}

static void close_all(struct observers *observers)
{
    uv_handle_t *const handles[] = {(uv_handle_t *)&observers->process, (uv_handle_t *)&observers->complaints,
                                    (uv_handle_t *)&observers->deadline};
    for (size_t i = 0; i < 3; i++)
        if (!uv_is_closing(handles[i]))
            uv_close(handles[i], on_closed);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal)
{
    struct observers *observers = process->data;
    const char *name = observers->options.specs[observers->current->next].name;
    char why[64];
    observers->options.stats->observed_total++;
    if (observers->timed_out)
        snprintf(why, sizeof why, "killed after its deadline");
    else if (signal)
        snprintf(why, sizeof why, "killed by SIG%s", sigabbrev_np(signal) ? sigabbrev_np(signal) : "?");
    else
        snprintf(why, sizeof why, "exit status %lld", (long long)status);
    if (!observers->stopping && (signal || status))
        fail(observers, name, why);
    close_all(observers);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char scrap[4096];
    (void)handle, (void)suggested;
    *ret = uv_buf_init(scrap, sizeof scrap);
}

static void on_said(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct observers *observers = stream->data;
    for (ssize_t i = 0; i < n && observers->n_said < SAID_MAX; i++)
        observers->said[observers->n_said++] = buffer->base[i];
    observers->said[observers->n_said] = '\0';
    if (n < 0)
        uv_read_stop(stream);
}

static void on_deadline(uv_timer_t *timer)
{
    struct observers *observers = timer->data;
    observers->timed_out = true;
    uv_process_kill(&observers->process, SIGKILL);
}

static int spawn(struct observers *observers, const struct transform_spec *spec)
{
    char *argv[FILTER_ARGS + 3] = {(char *)(uintptr_t)observers->options.leaf};
    char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", language[] = "LC_ALL=C";
    char *environment[] = {path, language, NULL};
    uv_stdio_container_t stdio[GIVEN] = {
        [1] = {.flags = UV_IGNORE},
        [2] = {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&observers->complaints},
    };
    for (int i = 0; i < GIVEN; i++)
        if (i != 1 && i != 2 && observers->current->fds[i] >= 0)
            stdio[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = observers->current->fds[i]};
    for (size_t i = 0; spec->argv[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)spec->argv[i];
    uv_process_options_t options = {
        .file = argv[0],
        .args = argv,
        .env = environment,
        .cwd = "/",
        .stdio = stdio,
        .stdio_count = GIVEN,
        .exit_cb = on_exit_of,
    };
    return uv_spawn(observers->loop, &observers->process, &options);
}

/* Show `current` to its next observer. What fails is reported and left; handles then close on the loop. */
static void start(struct observers *observers)
{
    const struct transform_spec *spec = &observers->options.specs[observers->current->next];
    struct filter_files files;
    struct error error;
    observers->n_said = 0;
    observers->said[0] = '\0';
    observers->timed_out = false;
    observers->process = (uv_process_t){.data = observers};
    uv_pipe_init(observers->loop, &observers->complaints, 0);
    uv_timer_init(observers->loop, &observers->deadline);
    observers->complaints.data = observers->deadline.data = observers;
    observers->open_handles = 3;
    for (int i = 0; i < GIVEN; i++)
        if (observers->current->fds[i] >= 0)
            lseek(observers->current->fds[i], 0, SEEK_SET);
    int status = filter_files_find(spec->argv, &files, &error);
    if (status < 0) {
        fail(observers, spec->name, error.text);
        observers->open_handles = 2;
        uv_close((uv_handle_t *)&observers->complaints, on_closed);
        uv_close((uv_handle_t *)&observers->deadline, on_closed);
        return;
    }
    filter_files_finish(&files);
    status = spawn(observers, spec);
    if (status < 0) {
        fail(observers, spec->name, uv_strerror(status));
        close_all(observers);
        return;
    }
    setpriority(PRIO_PROCESS, (id_t)observers->process.pid, LOWEST_NICE);
    syscall(SYS_ioprio_set, 1, observers->process.pid, IDLE_IO);
    uv_read_start((uv_stream_t *)&observers->complaints, on_room, on_said);
    uv_timer_start(&observers->deadline, on_deadline, spec->timeout_ms, 0);
}

static void advance(struct observers *observers)
{
    struct list *link = observers->current || observers->stopping ? NULL : list_pop(&observers->waiting);
    if (!link)
        return;
    observers->n_waiting--;
    observers->current = container_of(link, struct observation, link);
    start(observers);
}

void observers_stop(struct observers *observers)
{
    if (!observers)
        return;
    observers->stopping = true;
    drop_waiting(observers);
    if (observers->current && uv_is_active((uv_handle_t *)&observers->process))
        uv_process_kill(&observers->process, SIGKILL);
}
