#include "tests/unit/kernels_db/sample_kernel.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels_db/kernel_key.h"

/* ---- the folder ---- */

char folder[64];

void folder_create(void)
{
    const char *base = getenv("TMPDIR");
    int size = snprintf(folder, sizeof folder, "%s/kernels_db.XXXXXX", base && strlen(base) < 40 ? base : "/tmp");
    cr_assert(size > 0 && (size_t)size < sizeof folder);
    cr_assert_not_null(mkdtemp(folder));
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

void folder_remove(void)
{
    cr_assert_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

const char *folder_path(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

size_t folder_count(const char *start)
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    cr_assert_not_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strncmp(entry->d_name, start, strlen(start)) == 0;
    closedir(dir);
    return n;
}

unsigned cycles(unsigned usual)
{
    const char *asked = getenv("FUSIOND_TEST_CYCLES");
    return asked && atoi(asked) > 0 ? (unsigned)atoi(asked) : usual;
}

/* ---- kernels ---- */

static void fill(uint8_t *bytes, size_t size, unsigned seed)
{
    uint32_t state = seed * 2654435761u + 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(state >> 24);
    }
}

static void header_init(struct sample *sample, size_t i, const char *name, const char *text)
{
    sample->header_texts[i] = (struct bytes){(const uint8_t *)text, strlen(text)};
    sample->headers[i].name = text_of(name);
    digest_of(text, strlen(text), sample->headers[i].digest);
    sample->headers[i].has_digest = true;
}

static void entry_init(struct kernel_entry *entry, const char *name, uint64_t registers)
{
    *entry = (struct kernel_entry){
        .name = text_of(name),
        .lowered = text_of(name),
        .registers = registers,
        .has_registers = true,
        .spill_stores = 4,
        .has_spill_stores = true,
        .shared_memory = 1024,
        .has_shared_memory = true,
    };
}

void sample_init(struct sample *sample, unsigned seed)
{
    memset(sample, 0, sizeof *sample);
    snprintf(sample->label, sizeof sample->label, "label %u", seed);
    snprintf(sample->log, sizeof sample->log, "ptxas info: %u registers", seed);
    fill(sample->image, sizeof sample->image, seed);
    fill(sample->ptx, sizeof sample->ptx, seed + 1000000);
    header_init(sample, 0, "a.h", "#define A 1\n");
    header_init(sample, 1, "dir/b.h", "#define B 2\n");
    entry_init(&sample->entries[0], "twice", 16);
    entry_init(&sample->entries[1], "thrice<float>", 24);
    sample->args[0] = text_of("--std=c++17");
    sample->args[1] = text_of("--gpu-architecture=sm_90a");
    sample->modules[0] = text_of("index32");
    sample->warnings[0] = text_of("nothing serious");
    sample->phases[0] = (struct phase){.name = text_of("compile"), .ns = 45000000, .has_ns = true};
    sample->phases[1] = (struct phase){.name = text_of("load"), .ns = 5000000, .has_ns = true};
    sample->kernel = (struct kernel){
        .has_key = true,
        .label = text_of(sample->label),
        .scheduler = text_of("pointwise"),
        .title = text_of("pointwise_f1_c2_r3_g4"),
        .target = text_of("sm_90a"),
        .image_kind = IMAGE_KIND_CUBIN,
        .index_type = INDEX_TYPE_INT32,
        .entries = sample->entries,
        .n_entries = 2,
        .args = sample->args,
        .n_args = 2,
        .max_registers = 64,
        .has_max_registers = true,
        .block_size = 128,
        .has_block_size = true,
        .modules = sample->modules,
        .n_modules = 1,
        .headers = sample->headers,
        .n_headers = 2,
        .warnings = sample->warnings,
        .n_warnings = 1,
        .compiler = text_of("NVRTC 13.0"),
        .has_build = true,
        .phases = sample->phases,
        .n_phases = 2,
        .created_unix_s = 1700000000u + seed,
        .has_created_unix_s = true,
        .image_size = sizeof sample->image,
        .has_image_size = true,
        .ptx_size = sizeof sample->ptx,
        .has_ptx_size = true,
        .log = text_of(sample->log),
        .code = TEXT_OF(SAMPLE_CODE),
        .image = {sample->image, sizeof sample->image},
        .ptx = {sample->ptx, sizeof sample->ptx},
    };
    digest_of("build", 5, sample->kernel.build);
    digest_of(&seed, sizeof seed, sample->kernel.key);
}

struct kernels_db_row sample_row(const struct sample *sample, const char *name_space)
{
    return (struct kernels_db_row){name_space, &sample->kernel, sample->header_texts};
}

/* ---- the database ---- */

struct kernels_db *open_db(void)
{
    struct kernels_db *db = NULL;
    struct error error = {0};
    char notice[512];
    cr_assert_eq(kernels_db_open(folder, &db, notice, &error), 0, "%s", error.text);
    cr_assert_str_eq(notice, "");
    return db;
}

void put_sample(struct kernels_db *db, const char *name_space, const struct sample *sample)
{
    struct kernels_db_row row = sample_row(sample, name_space);
    struct error error = {0};
    cr_assert_eq(kernels_db_put(db, &row, 1, &error), 0, "%s", error.text);
}

bool has_sample(struct kernels_db *db, const char *name_space, const struct sample *sample)
{
    msgpack_zone *zone = msgpack_zone_new(8192);
    struct kernel kernel;
    struct error error = {0};
    cr_assert_not_null(zone);
    int got = kernels_db_get(db, name_space, sample->kernel.key, zone, &kernel, &error);
    cr_assert_geq(got, 0, "%s", error.text);
    if (got)
        cr_assert(message_equal(&kernel_type, &kernel, &sample->kernel), "not the kernel that was put");
    msgpack_zone_free(zone);
    return got;
}

struct kernels_db_stats stats_of(struct kernels_db *db)
{
    struct kernels_db_stats stats;
    struct error error = {0};
    cr_assert_eq(kernels_db_read_stats(db, &stats, &error), 0, "%s", error.text);
    return stats;
}

/* ---- another connection ---- */

sqlite3 *sqlite_open(void)
{
    sqlite3 *sqlite;
    cr_assert_eq(sqlite3_open_v2(folder_path("kernels.db"), &sqlite, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(sqlite, 5000);
    return sqlite;
}

void sqlite_run(sqlite3 *sqlite, const char *sql)
{
    char *message = NULL;
    cr_assert_eq(sqlite3_exec(sqlite, sql, NULL, NULL, &message), SQLITE_OK, "%s: %s", sql, message);
}

const char *sqlite_text(sqlite3 *sqlite, const char *sql)
{
    static char text[512];
    sqlite3_stmt *stmt;
    cr_assert_eq(sqlite3_prepare_v2(sqlite, sql, -1, &stmt, NULL), SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(sqlite));
    text[0] = '\0';
    if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(stmt, 0));
    cr_assert_eq(sqlite3_finalize(stmt), SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(sqlite));
    return text;
}

long long sqlite_number(sqlite3 *sqlite, const char *sql)
{
    return atoll(sqlite_text(sqlite, sql));
}
