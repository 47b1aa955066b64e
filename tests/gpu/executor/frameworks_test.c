/* Memory of a process that runs PyTorch or CuPy, used without a copy: frameworks.py against a real daemon. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/fusiond.h"
#include "tests/support/daemon_process.h"

static struct daemon_process the_daemon;
static const struct daemon_options as_usual;

static bool has_cuda(void)
{
    struct fusiond_connection *connection;
    struct fusiond_device_list *devices;
    struct fusiond_error error;
    bool found = false;
    cr_assert_eq(fusiond_connect(the_daemon.socket, NULL, &connection, &error), 0, "%s", error.text);
    cr_assert_eq(fusiond_devices(connection, &devices, &error), 0, "%s", error.text);
    for (size_t i = 0; i < fusiond_device_list_count(devices); i++)
        found |= strcmp(fusiond_device_list_at(devices, i).kind, "cuda") == 0;
    fusiond_device_list_destroy(devices);
    fusiond_close(connection);
    return found;
}

Test(frameworks, memory_is_shared_both_ways, .timeout = 300)
{
    int status;
    daemon_start_or_skip(&the_daemon, &as_usual);
    if (!has_cuda()) {
        daemon_stop_in_order(&the_daemon);
        daemon_finish(&the_daemon);
        cr_skip_test("there is no CUDA device");
    }
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO); /* the test's own stdout is TAP */
        execlp("python3", "python3", FRAMEWORKS_SCRIPT, the_daemon.socket, LIBFUSIOND, "0", (char *)NULL);
        _exit(77);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    daemon_stop_in_order(&the_daemon);
    daemon_finish(&the_daemon);
    if (WEXITSTATUS(status) == 77)
        cr_skip_test("neither PyTorch nor CuPy is here");
    cr_assert_eq(WEXITSTATUS(status), 0);
}
