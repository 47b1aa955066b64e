#include "tests/unit/daemon/pump.h"

#include <dirent.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BOUND_MS 20000
#define TICK_MS 5

/* ---- the loop ---- */

static uv_loop_t the_loop;
static uv_timer_t deadline;
static bool late;
static size_t fds_before;

uv_loop_t *loop = &the_loop;

static size_t count_fds(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    cr_assert_not_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void on_deadline(uv_timer_t *timer)
{
    (void)timer;
    late = true;
}

void pump_start(void)
{
    /* libuv keeps the descriptors of its signal pipe, which come with the first loop that spawns. */
    uv_loop_t first;
    uv_signal_t signal;
    cr_assert_eq(uv_loop_init(&first), 0);
    uv_signal_init(&first, &signal);
    uv_close((uv_handle_t *)&signal, NULL);
    uv_run(&first, UV_RUN_NOWAIT);
    cr_assert_eq(uv_loop_close(&first), 0);
    fds_before = count_fds();
    cr_assert_eq(uv_loop_init(loop), 0);
    uv_timer_init(loop, &deadline);
}

void pump_rearm(void)
{
    late = false;
    uv_update_time(loop);
    uv_timer_start(&deadline, on_deadline, BOUND_MS, 0);
}

bool pump_turn(void)
{
    /* UV_RUN_ONCE would wait for more after a timer that has made true what is waited for. */
    struct pollfd wanted = {.fd = uv_backend_fd(loop), .events = POLLIN};
    int ms = uv_backend_timeout(loop);
    uv_run(loop, UV_RUN_NOWAIT);
    if (ms != 0)
        poll(&wanted, 1, TICK_MS);
    return !late;
}

void pump_settle(void)
{
    for (int i = 0; i < 3; i++)
        uv_run(loop, UV_RUN_NOWAIT);
}

void pump_finish(void)
{
    uv_close((uv_handle_t *)&deadline, NULL);
    pump_settle();
    int status = uv_loop_close(loop);
    if (status)
        uv_print_all_handles(loop, stderr);
    cr_assert_eq(status, 0, "a handle is left");
    cr_assert_eq(count_fds(), fds_before, "%zu descriptors before the test, %zu after", fds_before, count_fds());
}

/* ---- files ---- */

char folder[64];

void folder_create(void)
{
    strcpy(folder, "/tmp/fusiond-unit-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

void folder_remove(void)
{
    cr_assert_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

const char *folder_path(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file, "%s", path);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- stderr ---- */

static int captured_fd = -1, real_stderr;

void capture_start(void)
{
    real_stderr = dup(STDERR_FILENO);
    captured_fd = memfd_create("captured", MFD_CLOEXEC);
    cr_assert(real_stderr >= 0 && captured_fd >= 0);
    dup2(captured_fd, STDERR_FILENO);
}

const char *capture_end(void)
{
    static char text[65536];
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    ssize_t n = pread(captured_fd, text, sizeof text - 1, 0);
    cr_assert_geq(n, 0);
    text[n] = '\0';
    close(captured_fd);
    return text;
}
