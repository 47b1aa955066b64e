#include "daemon/base/child.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/daemon/pump.h"

/* Children are small programs of the shell; descriptor 3 is their channel. */

static struct child child;
static int n_frames, n_exits, n_deadlines;
static char last_frame[64];
static struct child_exit exited;
static char complaint[CHILD_STDERR];

static void on_frame(struct child *from, const uint8_t *frame, size_t size)
{
    cr_assert_eq(from, &child);
    cr_assert_eq(n_exits, 0);
    cr_assert_lt(size, sizeof last_frame);
    memcpy(last_frame, frame, size);
    last_frame[size] = '\0';
    n_frames++;
}

static void on_exit_(struct child *which, const struct child_exit *exit)
{
    cr_assert_eq(which, &child);
    n_exits++;
    exited = *exit;
    strcpy(complaint, exit->complaint);
    /* The memory may be freed: whoever touches it from now on is seen. */
    memset(&child, 0xa5, sizeof child);
}

static const struct child_events events = {on_frame, on_exit_};

static void on_deadline(struct child *which)
{
    n_deadlines++;
    child_kill(which);
}

static void start_program(const char *path, char **argv)
{
    struct error error;
    cr_assert_eq(child_start(&child, loop, path, argv, 1024, &events, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(n_exits, 0);
}

static void start(const char *script)
{
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    start_program("/bin/sh", argv);
}

static void wait_for_exit(void)
{
    pump_until(n_exits == 1);
    pump_settle();
    cr_assert_eq(n_exits, 1);
}

TestSuite(child, .init = pump_start, .fini = pump_finish, .timeout = 60);

Test(child, the_exit_status_is_reported)
{
    start("exit 7");
    wait_for_exit();
    cr_assert_eq(exited.status, 7);
    cr_assert_eq(exited.signal, 0);
    cr_assert_not(exited.killed);
    cr_assert_str_eq(complaint, "");
}

Test(child, a_signal_is_reported)
{
    char text[64];
    start("echo the first line >&2; echo the second >&2; kill -SEGV $$");
    wait_for_exit();
    cr_assert_eq(exited.signal, SIGSEGV);
    cr_assert_not(exited.killed);
    exited.complaint = complaint;
    child_describe_exit(&exited, text, sizeof text);
    cr_assert_str_eq(text, "killed by SIGSEGV: the first line");
}

Test(child, an_exit_is_described_within_its_room)
{
    char text[16];
    struct child_exit exit = {.status = 3, .complaint = "a long sentence about why"};
    child_describe_exit(&exit, text, sizeof text);
    cr_assert_str_eq(text, "exit status 3: ");
    exit.complaint = "";
    child_describe_exit(&exit, text, sizeof text);
    cr_assert_str_eq(text, "exit status 3");
}

Test(child, frames_go_both_ways)
{
    /* Both frames are of 5 bytes behind their size. */
    start("printf '\\0\\0\\0\\005hello' >&3; head -c 9 <&3 | tail -c 5 >&2; exit 0");
    pump_until(n_frames == 1);
    cr_assert_str_eq(last_frame, "hello");
    child_send(&child, "\0\0\0\005there", 9, NULL, 0);
    wait_for_exit();
    cr_assert_str_eq(complaint, "there");
    cr_assert_eq(exited.status, 0);
}

Test(child, what_it_sent_before_it_died_is_delivered)
{
    start("printf '\\0\\0\\0\\004last' >&3; kill -KILL $$");
    wait_for_exit();
    cr_assert_eq(n_frames, 1);
    cr_assert_str_eq(last_frame, "last");
    cr_assert_eq(exited.signal, SIGKILL);
}

Test(child, stderr_is_bounded_and_its_control_characters_are_replaced)
{
    /* 1 MB, more than a pipe holds: the child must not block on it. */
    start("printf 'a\\033[31m\\007\\177b\\n' >&2; head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 5");
    wait_for_exit();
    cr_assert_eq(exited.status, 5);
    cr_assert_eq(strlen(complaint), CHILD_STDERR - 1);
    cr_assert_eq(strncmp(complaint, "a [31m  b\nxxx", 13), 0, "%.20s", complaint);
}

Test(child, its_environment_is_empty_and_stdin_ends)
{
    start("cat; /usr/bin/env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD= >&2; exit 0");
    wait_for_exit();
    cr_assert_str_eq(complaint, "");
}

Test(child, it_has_no_descriptor_beside_its_four)
{
    /* What the test's own library has open is not the question. */
    for (int fd = 3; fd < 256; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    start("ls /proc/self/fd | tr '\\n' ' ' >&2");
    wait_for_exit();
    /* ls opens the folder itself as the next one. */
    cr_assert_str_eq(complaint, "0 1 2 3 4 ");
}

Test(child, a_missing_program_is_an_exit_that_says_so)
{
    char *argv[] = {(char *)"nothing", NULL};
    start_program("/nonexistent/fusiond-compiler", argv);
    child_send(&child, "\0\0\0\001x", 5, NULL, 0);
    child_arm(&child, 1, on_deadline);
    child_kill(&child);
    child_disarm(&child);
    wait_for_exit();
    cr_assert_eq(exited.status, 127);
    cr_assert_str_eq(complaint, "/nonexistent/fusiond-compiler: no such file or directory");
    cr_assert_eq(n_deadlines, 0);
}

Test(child, a_program_with_a_very_long_path_that_is_missing)
{
    static char path[6000] = "/";
    char *argv[] = {(char *)"nothing", NULL};
    memset(path + 1, 'x', sizeof path - 2);
    start_program(path, argv);
    wait_for_exit();
    cr_assert_eq(strlen(complaint), CHILD_STDERR - 1);
}

Test(child, a_program_that_is_not_executable)
{
    char *argv[] = {(char *)"passwd", NULL};
    start_program("/etc/passwd", argv);
    wait_for_exit();
    cr_assert_eq(exited.status, 127);
    cr_assert_not_null(strstr(complaint, "permission denied"), "%s", complaint);
}

Test(child, F3_the_deadline_kills)
{
    start("trap '' TERM INT HUP; while :; do read line <&3 || :; done");
    child_arm(&child, 20, on_deadline);
    wait_for_exit();
    cr_assert_eq(n_deadlines, 1);
    cr_assert_eq(exited.signal, SIGKILL);
    cr_assert(exited.killed);
}

Test(child, a_disarmed_deadline_does_nothing)
{
    start("read line <&3; exit 4");
    child_arm(&child, 1, on_deadline);
    child_disarm(&child);
    child_send(&child, "go\n", 3, NULL, 0);
    wait_for_exit();
    cr_assert_eq(n_deadlines, 0);
    cr_assert_eq(exited.status, 4);
}

Test(child, a_child_that_closes_its_channel_is_killed)
{
    start("trap '' TERM INT HUP; exec 3>&-; kill -STOP $$");
    wait_for_exit();
    cr_assert_eq(exited.signal, SIGKILL);
    cr_assert_not(exited.killed, "nobody asked for it");
}

Test(child, a_child_that_breaks_the_protocol_is_killed_and_the_reason_kept)
{
    start("printf '\\377\\377\\377\\377' >&3; kill -STOP $$");
    wait_for_exit();
    cr_assert_eq(exited.signal, SIGKILL);
    cr_assert_str_eq(complaint, "a frame of 4294967295 bytes is above the limit of 1024");
    cr_assert_eq(n_frames, 0);
}

Test(child, killing_twice_and_at_once)
{
    start("kill -STOP $$");
    child_kill(&child);
    child_kill(&child);
    wait_for_exit();
    cr_assert_eq(exited.signal, SIGKILL);
    cr_assert(exited.killed);
}

Test(child, a_descendant_that_lives_on_does_not_hold_up_the_end)
{
    start("sleep 30 & printf '\\0\\0\\0\\004last' >&3; echo words >&2; kill -KILL $$");
    wait_for_exit();
    cr_assert_eq(n_frames, 1);
    cr_assert_str_eq(complaint, "words\n");
    cr_assert_eq(exited.signal, SIGKILL);
}

Test(child, one_that_is_let_go_sees_the_end_and_may_still_speak)
{
    start("cat <&3 >/dev/null; printf '\\0\\0\\0\\004last' >&3; exec 3>&-; echo words >&2; exit 4");
    child_send(&child, "\0\0\0\001x", 5, NULL, 0);
    child_release(&child, 20000);
    child_send(&child, "\0\0\0\001y", 5, NULL, 0);
    wait_for_exit();
    cr_assert_eq(n_frames, 1);
    cr_assert_str_eq(last_frame, "last");
    cr_assert_str_eq(complaint, "words\n");
    cr_assert_eq(exited.status, 4);
    cr_assert_eq(exited.signal, 0);
    cr_assert_not(exited.killed);
}

Test(child, one_that_is_let_go_and_stays_is_killed)
{
    start("kill -STOP $$");
    child_arm(&child, 1, on_deadline);
    child_release(&child, 20);
    wait_for_exit();
    cr_assert_eq(n_deadlines, 0, "the release took its place");
    cr_assert_eq(exited.signal, SIGKILL);
    cr_assert(exited.killed);
}

Test(child, one_that_is_let_go_and_breaks_the_protocol_is_killed)
{
    start("cat <&3 >/dev/null; printf '\\377\\377\\377\\377' >&3; kill -STOP $$");
    child_release(&child, 20000);
    wait_for_exit();
    cr_assert_eq(exited.signal, SIGKILL);
    cr_assert_str_eq(complaint, "a frame of 4294967295 bytes is above the limit of 1024");
}

/* ---- children of other processes ---- */

static int remote[2];

static void expect_one(void)
{
    struct error error;
    cr_assert_eq(child_expect(&child, loop, 1024, &events, NULL, remote, &error), 0, "%s", error.text);
}

/* What a zygote does. */
static pid_t fork_one(const char *script)
{
    pid_t pid = fork();
    if (pid == 0) {
        dup2(remote[0], 3);
        dup2(remote[1], 2);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(remote[0]);
    close(remote[1]);
    return pid;
}

static void find(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    cr_assert(pidfd >= 0);
    child_found(&child, pid, pidfd);
}

static void reap(pid_t pid)
{
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    child_ended(&child, WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0, NULL);
}

Test(child, one_of_another_process)
{
    expect_one();
    pid_t pid = fork_one("printf '\\0\\0\\0\\2ok' >&3; echo a complaint >&2; exit 7");
    find(pid);
    pump_until(n_frames == 1);
    reap(pid);
    cr_assert_eq(n_exits, 0, "not before its stderr is read");
    wait_for_exit();
    cr_assert_str_eq(last_frame, "ok");
    cr_assert_str_eq(complaint, "a complaint\n");
    cr_assert(exited.status == 7 && exited.signal == 0 && !exited.killed);
}

/* What it is sent before it is there waits for it. */
Test(child, one_of_another_process_is_spoken_to_at_once)
{
    expect_one();
    child_send(&child, "\0\0\0\2ok", 6, NULL, 0);
    child_arm(&child, 60000, on_deadline);
    pid_t pid = fork_one("head -c 6 <&3 >&3; exit 0");
    find(pid);
    pump_until(n_frames == 1);
    reap(pid);
    wait_for_exit();
    cr_assert(n_deadlines == 0 && exited.status == 0);
}

Test(child, one_of_another_process_killed)
{
    expect_one();
    pid_t pid = fork_one("sleep 100");
    find(pid);
    child_kill(&child);
    reap(pid);
    wait_for_exit();
    cr_assert(exited.killed && exited.signal == SIGKILL);
}

Test(child, one_of_another_process_killed_before_it_is_found)
{
    expect_one();
    pid_t pid = fork_one("sleep 100");
    child_kill(&child);
    find(pid);
    reap(pid);
    wait_for_exit();
    cr_assert(exited.killed && exited.signal == SIGKILL);
}

Test(child, one_that_is_never_there)
{
    expect_one();
    close(remote[0]);
    close(remote[1]);
    child_ended(&child, 127, 0, "no memory to fork");
    wait_for_exit();
    cr_assert_eq(exited.status, 127);
    cr_assert_str_eq(complaint, "no memory to fork");
}
