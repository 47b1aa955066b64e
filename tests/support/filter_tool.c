/* A filter that misbehaves as its first argument says; "copy" does not. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void copy(void)
{
    char bytes[65536];
    ssize_t n;
    while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0)
        if (write(STDOUT_FILENO, bytes, (size_t)n) != n)
            exit(9);
}

static void flood(int fd)
{
    char bytes[65536];
    memset(bytes, 'x', sizeof bytes);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
}

/* Show the beginning of a file, whose name is given without the slash in front, or why not. */
static int show(const char *name)
{
    char bytes[256], path[256];
    snprintf(path, sizeof path, "/%s", name);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    if (n > 0)
        fwrite(bytes, 1, (size_t)n, stdout);
    else
        perror(path);
    return n > 0 ? 0 : 5;
}

static void *nothing(void *argument)
{
    return argument;
}

static int reach_out(const char *how)
{
    if (strcmp(how, "socket") == 0)
        return socket(AF_INET, SOCK_STREAM, 0) < 0;
    if (strcmp(how, "write") == 0)
        return open("/tmp/fusiond-filter-was-here", O_WRONLY | O_CREAT, 0600) < 0;
    if (strcmp(how, "signal") == 0)
        return kill(getppid(), SIGTERM) < 0;
    pid_t pid = fork();
    if (pid == 0)
        pause();
    return pid < 0;
}

static int misbehave(const char *how, const char *argument)
{
    if (strcmp(how, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(how, "spin") == 0)
        for (;;)
            ;
    if (strcmp(how, "close") == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        for (;;)
            pause();
    }
    if (strcmp(how, "crash") == 0)
        abort();
    if (strcmp(how, "flood") == 0)
        flood(STDOUT_FILENO);
    if (strcmp(how, "complain") == 0)
        flood(STDERR_FILENO);
    if (strcmp(how, "exit") == 0) {
        fputs("this does not please me\nat all\n", stderr);
        return atoi(argument);
    }
    if (strcmp(how, "deaf") == 0)
        return puts("nothing read") < 0;
    if (strcmp(how, "nul") == 0)
        return fwrite("a\0b", 1, 3, stdout) != 3;
    if (strcmp(how, "show") == 0)
        return show(argument);
    if (strcmp(how, "environment") == 0) {
        for (char **variable = environ; *variable; variable++)
            puts(*variable);
        return 0;
    }
    if (strcmp(how, "memory") == 0) {
        for (size_t size = 0; size < 4096; size++) {
            char *megabyte = malloc(1 << 20);
            if (!megabyte)
                return 7;
            memset(megabyte, 1, 1 << 20);
        }
        return 0;
    }
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) != 0)
            return 6;
        pthread_join(thread, NULL);
        copy();
        return 0;
    }
    if (reach_out(how))
        return 5;
    puts("it could");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "copy") != 0)
        return misbehave(argv[1], argc > 2 ? argv[2] : "");
    copy();
    return 0;
}
