/* Which of the daemon's own texts a program includes: modules of the preamble, and the texts of the host device. */
#ifndef DAEMON_COMPILE_PROGRAM_FILES_H
#define DAEMON_COMPILE_PROGRAM_FILES_H

#include "proto/message.h"

#define PROGRAM_FILES_MAX 256

/* All that `program` includes, and what these include in turn, each once, in the order in which they are first named.
 * Their texts are static. Returns how many. */
size_t program_files(struct text program, struct source_file ret[PROGRAM_FILES_MAX]);

/* BLAKE2b-256 over the names and digests of these texts, in that order: whether they are still the same. */
void program_files_digest(struct text program, uint8_t ret[DIGEST_SIZE]);

#endif
