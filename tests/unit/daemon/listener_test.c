#include "daemon/listener.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "tests/unit/daemon/pump.h"

static struct listener listener;
static struct error error;
static int n_accepted, n_refused;
static pid_t accepted_pid;
static uid_t accepted_uid;

static void on_accept(struct listener *which, int fd, uid_t uid, pid_t pid)
{
    cr_assert_eq(which, &listener);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    accepted_uid = uid;
    accepted_pid = pid;
    n_accepted++;
    close(fd);
}

static void on_refuse(struct listener *which, uid_t uid, pid_t pid)
{
    (void)which, (void)uid, (void)pid;
    n_refused++;
}

static int open_at(struct listener *which, const char *path, const char *cache_dir)
{
    error = (struct error){0};
    return listener_open(which, loop, path, cache_dir, on_accept, on_refuse, &error);
}

static void open_well(const char *path, const char *cache_dir)
{
    cr_assert_eq(open_at(&listener, path, cache_dir), 0, "%s", error.text);
}

static void close_listener(void)
{
    listener_close(&listener);
    listener_close(&listener);
    pump_settle();
    listener_finish(&listener);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, path);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void setup(void)
{
    log_set_level(LOG_ERROR);
    folder_create();
    pump_start();
}

static void teardown(void)
{
    pump_finish();
    folder_remove();
}

TestSuite(listener, .init = setup, .fini = teardown, .timeout = 60);

static mode_t mode_of(const char *path)
{
    struct stat status;
    cr_assert_eq(stat(path, &status), 0, "%s", path);
    return status.st_mode & 07777;
}

static void expect_refused(const char *path, enum status code, const char *text)
{
    struct listener other;
    cr_assert_eq(open_at(&other, path, NULL), -1);
    cr_assert_eq(error.code, code, "%s", error.text);
    cr_assert_str_eq(error.text, text);
}

Test(listener, a_peer_is_accepted_with_who_it_is)
{
    const char *path = folder_path("new/deep/sock");
    open_well(path, NULL);
    cr_assert_eq(mode_of(path), 0600);
    cr_assert_eq(mode_of(folder_path("new/deep")), 0700);
    cr_assert_eq(mode_of(folder_path("new")), 0700);
    int fd = connect_to(path);
    pump_until(n_accepted == 1);
    cr_assert_eq(accepted_uid, geteuid());
    cr_assert_eq(accepted_pid, getpid());
    close(fd);
    close_listener();
    cr_assert_not(file_exists(path), "the socket is removed");
}

Test(listener, F26_a_stale_socket_does_not_block)
{
    const char *path = folder_path("sock");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(address.sun_path, path);
    cr_assert_eq(bind(stale, (struct sockaddr *)&address, sizeof address), 0);
    close(stale);
    file_write(folder_path("sock.lock"), "999999\n");
    open_well(path, NULL);
    int fd = connect_to(path);
    pump_until(n_accepted == 1);
    close(fd);
    close_listener();
}

Test(listener, F26_the_holder_of_the_socket_is_named)
{
    char path[256], text[512];
    snprintf(path, sizeof path, "%s", folder_path("sock"));
    open_well(path, NULL);
    snprintf(text, sizeof text, "another fusiond, pid %d, holds %s", getpid(), path);
    expect_refused(path, STATUS_BUSY, text);
    cr_assert(file_exists(path), "the holder's socket is left alone");
    int fd = connect_to(path);
    pump_until(n_accepted == 1);
    close(fd);
    close_listener();
    open_well(path, NULL);
    close_listener();
}

Test(listener, F26_the_holder_of_the_cache_is_named)
{
    char cache[256], text[512];
    struct listener other;
    snprintf(cache, sizeof cache, "%s", folder_path("cache/v1"));
    open_well(folder_path("one"), cache);
    cr_assert_eq(mode_of(cache), 0700);
    cr_assert_eq(open_at(&other, folder_path("two"), cache), -1);
    cr_assert_eq(error.code, STATUS_BUSY);
    snprintf(text, sizeof text, "another fusiond, pid %d, holds %s", getpid(), cache);
    cr_assert_str_eq(error.text, text);
    cr_assert_not(file_exists(folder_path("two")));
    close_listener();
}

Test(listener, F8_a_cache_that_cannot_be_made_is_no_reason_not_to_serve)
{
    open_well(folder_path("sock"), "/proc/nowhere/cache");
    int fd = connect_to(folder_path("sock"));
    pump_until(n_accepted == 1);
    close(fd);
    close_listener();
}

Test(listener, F27_a_folder_that_others_can_write_to_is_refused)
{
    char text[512], path[256];
    cr_assert_eq(mkdir(folder_path("open"), 0700), 0);
    cr_assert_eq(chmod(folder_path("open"), 0770), 0);
    snprintf(path, sizeof path, "%s", folder_path("open/sock"));
    snprintf(text, sizeof text, "the socket's folder %s has mode 0770: others can write to it", folder_path("open"));
    expect_refused(path, STATUS_FORBIDDEN, text);
    cr_assert_eq(chmod(folder_path("open"), 0750), 0);
    open_well(path, NULL);
    close_listener();
}

Test(listener, a_folder_that_is_a_file)
{
    char text[512];
    file_write(folder_path("file"), "");
    snprintf(text, sizeof text, "%s, the socket's folder, is not a folder", folder_path("file"));
    expect_refused(folder_path("file/sock"), STATUS_SYSTEM, text);
}

Test(listener, paths_that_are_no_place_for_a_socket)
{
    char text[512], path[200];
    expect_refused("/sock", STATUS_SYSTEM, "socket: /sock must be an absolute path in a folder of its own");
    expect_refused("sock", STATUS_SYSTEM, "socket: sock must be an absolute path in a folder of its own");
    snprintf(path, sizeof path, "%s/%0*d", folder, (int)(108 - strlen(folder) - 1), 0);
    cr_assert_eq(strlen(path), 108);
    snprintf(text, sizeof text, "socket: a path of 108 bytes is above the limit of 107: %s", path);
    expect_refused(path, STATUS_SYSTEM, text);
    path[107] = '\0';
    open_well(path, NULL);
    close_listener();
}

Test(listener, a_lock_that_is_a_link_is_refused)
{
    struct listener other;
    cr_assert_eq(symlink("/etc/hostname", folder_path("sock.lock")), 0);
    cr_assert_eq(open_at(&other, folder_path("sock"), NULL), -1);
    cr_assert_eq(error.code, STATUS_SYSTEM);
}

Test(listener, F16_without_descriptors_it_pauses_and_resumes)
{
    struct rlimit limit;
    open_well(folder_path("sock"), NULL);
    int one = connect_to(folder_path("sock")), two = connect_to(folder_path("sock"));
    int lowest = dup(0);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t before = limit.rlim_cur;
    /* No new one can be had, and the reserve's number can: it is below. */
    limit.rlim_cur = (rlim_t)lowest;
    setrlimit(RLIMIT_NOFILE, &limit);
    pump_until(listener.paused);
    cr_assert_eq(n_accepted, 0);
    pump_settle();
    cr_assert(listener.paused && n_accepted == 0, "no busy loop");
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    listener_resume(&listener);
    pump_until(n_accepted == 1);
    char byte;
    cr_assert_eq(recv(one, &byte, 1, 0), 0, "the first one was turned away");
    cr_assert_geq(listener.reserve_fd, 0);
    close(one);
    close(two);
    close_listener();
    listener_resume(&listener);
}
