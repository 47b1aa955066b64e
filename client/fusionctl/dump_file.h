/* Where the parts of a dump go: files that must not be there yet, or the standard output. */
#ifndef CLIENT_FUSIONCTL_DUMP_FILE_H
#define CLIENT_FUSIONCTL_DUMP_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The folder, made if it is not there. False, with a message. */
bool dump_folder(const char *folder);

/* Write folder/name. A file that exists is an error, unless `force`: then it is replaced, never followed if it is a
 * link. One that could not be written whole is removed. False, with a message. *ret_path is to be freed. */
bool dump_file(const char *folder, const char *name, const void *bytes, size_t size, bool force, char **ret_path);

/* A name for people and for files: letters, digits and "._-" stay, all else becomes '_'. */
void dump_plain(const char *text, char *ret, size_t room);

#endif
