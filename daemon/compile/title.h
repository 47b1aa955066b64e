/* What people call a kernel (B7.1). Never in a key. */
#ifndef DAEMON_COMPILE_TITLE_H
#define DAEMON_COMPILE_TITLE_H

#include "kernels_db/kernel_key.h"
#include "proto/message.h"

/* With its NUL. */
#define TITLE_SIZE (LIMIT_NAME + 1)

/* "reduction_f3_c1_r0_g2", of the scheduler and the ids that the generator gave; else "softmax_1a2b3c4d", of the label
 * and the beginning of the key. Absent, and "", without either. What is too long is cut within the first part. */
struct text title_of(const struct fusion *fusion, const uint8_t key[KEY_SIZE], char ret[TITLE_SIZE]);

#endif
