/* Tests: a program as a process, and what it wrote. */
#ifndef TESTS_INTEGRATION_CLIENT_PROGRAM_H
#define TESTS_INTEGRATION_CLIENT_PROGRAM_H

/* What a program wrote. */
struct program_output {
    char out[65536], err[65536]; /* NUL-terminated, cut */
    int status;                  /* its exit code; -1: a signal */
};

/* Run a program with these arguments (ends with NULL) and wait for its end. `environment` is one "NAME=VALUE" to add,
 * or NULL. */
void program_run(const char *path, const char *environment, const char *const *arguments, struct program_output *ret);

/* fusionctl, with the daemon at `socket` (NULL: as the environment says). */
void fusionctl(const char *socket, const char *environment, const char *const *arguments, struct program_output *ret);

#endif
