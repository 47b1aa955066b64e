/*
 * fusiond-leaf PROGRAM [ARGUMENT]...: run a program that dies with its parent.
 *
 * The C++ compiler starts its stages through this (gcc's -wrapper). The worker kills nothing but itself when it must
 * end; what it has started must then end as well, and the kernel's wish to be killed does not pass on to grandchildren.
 * No library but the C library: it runs where only the toolchain can be read.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pid_t parent = getppid();
    if (argc < 2 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        return 127;
    execvp(argv[1], argv + 1);
    return 127;
}
