/* Which code an image holds. Two images of one program by two ways of compiling it may differ as files, in notes and
 * option strings; they are the same kernel if this is the same. */
#ifndef DAEMON_COMPILER_CODE_SECTIONS_H
#define DAEMON_COMPILER_CODE_SECTIONS_H

#include "kernels_db/kernel_key.h"
#include "proto/error.h"

/* Of a cubin: a digest of the bytes of its functions, in their order, and how many there are. Names are left out: those
 * in an unnamed namespace hold the compiling process's id. Of PTX: of the text. -1 with INTERNAL when it is neither. */
int code_sections_digest(struct bytes image, uint8_t ret[DIGEST_SIZE], struct error *error);

#endif
