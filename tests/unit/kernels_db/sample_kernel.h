/* For tests of the kernel database: a folder of its own, and kernels with everything in them. */
#ifndef TESTS_UNIT_KERNELS_DB_SAMPLE_KERNEL_H
#define TESTS_UNIT_KERNELS_DB_SAMPLE_KERNEL_H

#include <sqlite3.h>

#include "kernels_db/kernels_db.h"

/* A temporary folder, one per test process. Init it in .init, and remove it with all it holds in .fini. */
extern char folder[64];
void folder_create(void);
void folder_remove(void);
/* "<folder>/<name>", in a buffer that the next call but three reuses. */
const char *folder_path(const char *name);
/* How many names in the folder begin so. */
size_t folder_count(const char *start);

/* How often to repeat: FUSIOND_TEST_CYCLES in the environment, for a long run by hand, else the usual number. */
unsigned cycles(unsigned usual);

/* A kernel made from a number: with all fields, two headers and their texts. Different seeds have different keys,
 * labels, images and PTX, and one code. Owner: the sample. */
#define SAMPLE_CODE "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }\n"
struct sample {
    struct kernel kernel;
    struct bytes header_texts[2];
    struct kernel_entry entries[2];
    struct header_digest headers[2];
    struct text args[2], modules[1], warnings[1];
    struct phase phases[2];
    char label[32], log[64];
    uint8_t image[3000], ptx[700];
};
void sample_init(struct sample *sample, unsigned seed);
struct kernels_db_row sample_row(const struct sample *sample, const char *name_space);

/* Open the folder's database, with no notice expected; the test fails otherwise. */
struct kernels_db *open_db(void);
void put_sample(struct kernels_db *db, const char *name_space, const struct sample *sample);
/* Get and compare: 1 and equal, or 0. */
bool has_sample(struct kernels_db *db, const char *name_space, const struct sample *sample);
struct kernels_db_stats stats_of(struct kernels_db *db);

/* Another connection to the folder's database, for looking and damaging. */
sqlite3 *sqlite_open(void);
void sqlite_run(sqlite3 *sqlite, const char *sql);
/* The first column of the first row, as a number or a text ("" for none). */
long long sqlite_number(sqlite3 *sqlite, const char *sql);
const char *sqlite_text(sqlite3 *sqlite, const char *sql);

#endif
