/*
 * A filter: a program of the daemon's owner that reads one text and writes another. Which files it is made of, so that
 * they can be digested, and are all that it can read.
 */
#ifndef DAEMON_SANDBOX_FILTER_H
#define DAEMON_SANDBOX_FILTER_H

#include <sys/stat.h>

#include "proto/error.h"
#include "proto/message.h"

/* Arguments beside the program. */
#define FILTER_ARGS 16
/* The program, its interpreter, and what arguments name. */
#define FILTER_FILES (FILTER_ARGS + 2)
/* Bytes of one of these files: an interpreter with much built in. */
#define FILTER_FILE_MAX (64u << 20)

struct filter_files {
    char *paths[FILTER_FILES + 1]; /* ends with NULL */
    struct stat status[FILTER_FILES];
    size_t n;
};

/* argv[0] is the program, an absolute path; ends with NULL. Its files are the program, the interpreter that its first
 * line names, and every argument that is the absolute path of a regular file. Each must be writable by the daemon's
 * user or root alone. -1 with INVALID_FILE; *ret is then empty. */
int filter_files_find(const char *const *argv, struct filter_files *ret, struct error *error);
void filter_files_finish(struct filter_files *files);

/* Whether one of the files is another than it was, or gone. */
bool filter_files_changed(const struct filter_files *files);

/* BLAKE2b-256 over the arguments and the files' names and bytes. */
int filter_files_digest(const char *const *argv, const struct filter_files *files, uint8_t ret[DIGEST_SIZE],
                        struct error *error);

#endif
