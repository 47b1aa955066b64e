/* Tests: whole files. */
#ifndef TESTS_INTEGRATION_CLIENT_FILES_H
#define TESTS_INTEGRATION_CLIENT_FILES_H

#include <stddef.h>
#include <sys/types.h>

/* Write it, in place of what is there; the umask does not count. */
void file_write(const char *path, const char *text, mode_t mode);
/* Read it, with a NUL at its end, to be freed; NULL: there is none. */
char *file_read(const char *path);
/* The text with the first `from` in it replaced; the test fails when there is none. To be freed. */
char *text_replace(const char *text, const char *from, const char *to);
/* Remove a folder and all in it. */
void folder_remove(const char *path);

#endif
