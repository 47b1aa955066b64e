#include "daemon/base/notify.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/daemon/pump.h"

static int bind_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path, path, strlen(path));
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

static void expect(int fd, const char *text)
{
    char got[64] = "";
    cr_assert_eq(recv(fd, got, sizeof got - 1, 0), (ssize_t)strlen(text));
    cr_assert_str_eq(got, text);
    close(fd);
}

TestSuite(notify, .init = folder_create, .fini = folder_remove);

Test(notify, readiness_reaches_a_path)
{
    const char *path = folder_path("notify");
    int fd = bind_at(path);
    setenv("NOTIFY_SOCKET", path, 1);
    notify_send("READY=1");
    expect(fd, "READY=1");
}

Test(notify, readiness_reaches_an_abstract_name)
{
    char name[64];
    snprintf(name, sizeof name, "@fusiond-notify-%d", getpid());
    int fd = bind_at(name);
    setenv("NOTIFY_SOCKET", name, 1);
    notify_send("STOPPING=1");
    expect(fd, "STOPPING=1");
}

Test(notify, without_a_usable_socket_nothing_happens)
{
    char long_path[300] = "/";
    memset(long_path + 1, 'x', sizeof long_path - 2);
    long_path[sizeof long_path - 1] = '\0';
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", "relative", 1);
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", long_path, 1);
    notify_send("READY=1");
    setenv("NOTIFY_SOCKET", folder_path("nobody"), 1);
    notify_send("READY=1");
}

/* ---- sockets in ---- */

static void environment(int pid, const char *fds)
{
    char text[32];
    snprintf(text, sizeof text, "%d", pid);
    setenv("LISTEN_PID", text, 1);
    setenv("LISTEN_FDS", fds, 1);
}

/* What notify_listen_fd says in a process of its own, where 3 is ours to use: 0 it took the descriptor, 1 it did not,
 * 2 it took it and would let it be inherited. */
static int ask(bool open, int pid_offset, const char *fds, const char *missing)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (open && fd != 3)
            dup2(fd, 3);
        if (!open)
            close(3);
        environment(getpid() + pid_offset, fds);
        if (missing)
            unsetenv(missing);
        if (notify_listen_fd() != 3)
            _exit(1);
        _exit(fcntl(3, F_GETFD) & FD_CLOEXEC ? 0 : 2);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

Test(notify, F30_a_passed_socket_is_taken_and_not_inherited_further)
{
    cr_assert_eq(ask(true, 0, "1", NULL), 0);
    cr_assert_eq(ask(true, 0, "2", NULL), 0, "the first of several");
}

Test(notify, F30_variables_for_another_process_are_not_ours)
{
    cr_assert_eq(ask(true, 1, "1", NULL), 1);
    cr_assert_eq(ask(true, 0, "0", NULL), 1);
    cr_assert_eq(ask(true, 0, "many", NULL), 1);
    cr_assert_eq(ask(true, 0, "1", "LISTEN_FDS"), 1);
    cr_assert_eq(ask(true, 0, "1", "LISTEN_PID"), 1);
}

Test(notify, F30_a_descriptor_that_is_not_open_is_none)
{
    cr_assert_eq(ask(false, 0, "1", NULL), 1);
}
