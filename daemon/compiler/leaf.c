/*
 * fusiond-leaf PROGRAM [ARGUMENT]...: run a stage of the C++ compiler that dies with its parent, behind the fence if it
 * reads a client's text.
 *
 * The C++ compiler starts its stages through this (gcc's -wrapper). The worker kills nothing but itself when it must
 * end; what it has started must then end as well, and the kernel's wish to be killed does not pass on to grandchildren.
 * The linker's driver has no wrapper for the linker: it finds this under the name "ld", and $FUSIOND_LD is the program.
 * No library but the C library: it runs where only the toolchain can be read.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool is_called(const char *program, const char *name)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, name) == 0;
}

int main(int argc, char **argv)
{
    pid_t parent = getppid();
    char *linker = getenv("FUSIOND_LD");
    const char *fence = getenv("FUSIOND_FENCE");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || argc < 1)
        return 127;
    if (is_called(argv[0], "ld")) {
        if (linker)
            execv(linker, argv);
        return 127;
    }
    if (argc < 2)
        return 127;
    if (is_called(argv[1], "cc1plus") || is_called(argv[1], "as")) {
        if (!fence || setenv("LD_PRELOAD", fence, 1) < 0)
            return 127;
    }
    execvp(argv[1], argv + 1);
    return 127;
}
