#include "daemon/kernel_store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "tests/unit/daemon/held.h"
#include "tests/unit/daemon/pump.h"

static struct kernel_store *store;
static struct stats_reply stats;
static uint64_t memory_bytes;
static int n_closed;

static void on_closed(void *owner)
{
    cr_assert_eq(owner, &n_closed);
    n_closed++;
}

static void open_store(const char *directory)
{
    struct error error;
    struct kernel_store_options options = {directory, memory_bytes, &stats};
    stats = (struct stats_reply){0};
    cr_assert_eq(kernel_store_create(loop, &options, &store, &error), 0, "%s", error.text);
}

static void close_store(void)
{
    n_closed = 0;
    kernel_store_close(store, on_closed, &n_closed);
    cr_assert_eq(n_closed, 0, "later");
    pump_until(n_closed == 1);
    store = NULL;
}

static void setup(void)
{
    log_set_level(LOG_ERROR);
    folder_create();
    pump_start();
    memory_bytes = 64u << 20;
}

static void teardown(void)
{
    if (store)
        close_store();
    pump_finish();
    folder_remove();
}

TestSuite(kernel_store, .init = setup, .fini = teardown, .timeout = 60);

/* ---- commits and look-ups, one at a time ---- */

struct commit {
    struct store_commit commit;
    int n_done;
    bool stored;
};

static void on_committed(struct store_commit *which, struct held_kernel *kernel, bool stored)
{
    struct commit *commit = container_of(which, struct commit, commit);
    commit->n_done++;
    commit->stored = stored;
    cr_assert_eq(kernel->stored, stored);
    cr_assert_eq(kernel_store_find(store, &kernel->id), kernel, "it is in memory");
}

static bool commit(unsigned number)
{
    struct commit commit = {.commit = {.kernel = held_of(number, 500), .done = on_committed}};
    kernel_store_commit(store, &commit.commit);
    cr_assert_eq(commit.n_done, 0, "later");
    pump_until(commit.n_done == 1);
    return commit.stored;
}

struct lookup {
    struct store_lookup lookup;
    int n_done;
    unsigned number;
    bool found;
};

static void on_looked_up(struct store_lookup *which, struct held_kernel *kernel)
{
    struct lookup *lookup = container_of(which, struct lookup, lookup);
    lookup->n_done++;
    lookup->found = kernel != NULL;
    if (kernel) {
        cr_assert(held_is(kernel, lookup->number));
        cr_assert(kernel->stored);
        cr_assert_eq(kernel_store_find(store, &kernel->id), kernel, "it is in memory from now on");
    }
}

static bool look_up_as(unsigned number, uint64_t owner)
{
    struct error error;
    struct lookup lookup = {.lookup = {.id = held_id(number), .done = on_looked_up}, .number = number};
    lookup.lookup.id.owner = owner;
    cr_assert_eq(kernel_store_look_up(store, &lookup.lookup, &error), 0);
    cr_assert_eq(lookup.n_done, 0, "later");
    pump_until(lookup.n_done == 1);
    return lookup.found;
}

static bool look_up(unsigned number)
{
    return look_up_as(number, held_id(number).owner);
}

static bool in_memory(unsigned number)
{
    struct kernel_id id = held_id(number);
    return kernel_store_find(store, &id) != NULL;
}

/* ---- another look into the file ---- */

static sqlite3 *sqlite_open(void)
{
    sqlite3 *sqlite;
    cr_assert_eq(sqlite3_open(folder_path("kernels.db"), &sqlite), SQLITE_OK);
    sqlite3_busy_timeout(sqlite, 5000);
    return sqlite;
}

static void sqlite_run(sqlite3 *sqlite, const char *sql)
{
    cr_assert_eq(sqlite3_exec(sqlite, sql, NULL, NULL, NULL), SQLITE_OK, "%s: %s", sql, sqlite3_errmsg(sqlite));
}

static long long sqlite_number(sqlite3 *sqlite, const char *sql)
{
    sqlite3_stmt *stmt;
    cr_assert_eq(sqlite3_prepare_v2(sqlite, sql, -1, &stmt, NULL), SQLITE_OK, "%s", sqlite3_errmsg(sqlite));
    cr_assert_eq(sqlite3_step(stmt), SQLITE_ROW);
    long long number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return number;
}

/* ---- tests ---- */

Test(kernel_store, F1_what_is_committed_is_found_by_the_next_daemon)
{
    open_store(folder);
    cr_assert_null(kernel_store_problem(store));
    cr_assert_not(look_up(1));
    cr_assert(commit(1));
    cr_assert_eq(stats.database_commits_total, 1);
    close_store();
    open_store(folder);
    cr_assert_not(in_memory(1));
    cr_assert(look_up(1));
    cr_assert(in_memory(1));
    cr_assert_not(look_up(2));
    cr_assert_not(look_up_as(1, 1001), "another uid's kernel");
}

Test(kernel_store, without_a_database_memory_serves)
{
    struct error error;
    struct store_list list = {.owner = 1000};
    open_store(NULL);
    cr_assert_str_eq(kernel_store_problem(store), "the daemon runs without a database, as asked");
    cr_assert_not(look_up(1));
    cr_assert_not(commit(1));
    cr_assert(in_memory(1));
    cr_assert_eq(kernel_store_list(store, &list, &error), -1);
    cr_assert_eq(error.code, STATUS_DATABASE);
    cr_assert_eq(stats.database_errors_total, 0);
}

Test(kernel_store, F8_a_folder_that_is_not_there)
{
    open_store("/nonexistent/fusiond");
    cr_assert_not_null(kernel_store_problem(store));
    cr_assert_not(commit(1));
    cr_assert(in_memory(1));
}

Test(kernel_store, F7_a_write_that_fails_is_a_problem_until_one_succeeds)
{
    open_store(folder);
    cr_assert(commit(1));
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "CREATE TRIGGER full BEFORE INSERT ON kernel BEGIN SELECT RAISE(ABORT, 'disk full'); END");
    cr_assert_not(commit(2));
    cr_assert(in_memory(2), "it is served all the same");
    cr_assert_not_null(strstr(kernel_store_problem(store), "disk full"), "%s", kernel_store_problem(store));
    cr_assert_eq(stats.database_errors_total, 1);
    /* A read that works shows nothing about writing. */
    cr_assert_not(look_up(99));
    cr_assert_not_null(kernel_store_problem(store));
    sqlite_run(sqlite, "DROP TRIGGER full");
    cr_assert(commit(3));
    cr_assert_null(kernel_store_problem(store));
    cr_assert_eq(stats.database_commits_total, 2);
    sqlite3_close(sqlite);
}

Test(kernel_store, B5_4_uses_are_written_at_the_end)
{
    open_store(folder);
    cr_assert(commit(1));
    cr_assert(commit(2));
    close_store();
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "UPDATE kernel SET last_used = 5");
    sqlite3_close(sqlite);
    open_store(folder);
    cr_assert(look_up(1));
    close_store();
    sqlite = sqlite_open();
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM kernel WHERE last_used = 5"), 1);
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM kernel WHERE last_used > 1700000000"), 1);
    sqlite3_close(sqlite);
}

Test(kernel_store, B5_4_uses_of_what_left_memory_are_written_too)
{
    open_store(folder);
    for (unsigned i = 0; i < 4; i++)
        cr_assert(commit(i));
    close_store();
    sqlite3 *sqlite = sqlite_open();
    sqlite_run(sqlite, "UPDATE kernel SET last_used = 5");
    sqlite3_close(sqlite);
    memory_bytes = 1;
    open_store(folder);
    for (unsigned i = 0; i < 4; i++)
        cr_assert(look_up(i));
    cr_assert_eq(stats.memory_kernels, 1);
    close_store();
    sqlite = sqlite_open();
    cr_assert_eq(sqlite_number(sqlite, "SELECT count(*) FROM kernel WHERE last_used = 5"), 0);
    sqlite3_close(sqlite);
}

static int n_listed;
static size_t n_rows;

static void on_list(struct store_list *list, const struct kernel_list_reply *reply, const struct error *error)
{
    (void)list;
    cr_assert_null(error);
    n_rows = reply->n_kernels;
    n_listed++;
}

static int n_numbers;
static uint64_t n_kernels;

static void on_numbers(struct store_numbers *numbers, const struct kernels_db_stats *database)
{
    (void)numbers;
    n_kernels = database->kernels;
    n_numbers++;
}

Test(kernel_store, listing_and_numbers)
{
    struct error error;
    struct store_list list = {.owner = 1000, .done = on_list}, others = {.owner = 7, .done = on_list};
    struct store_numbers numbers = {.done = on_numbers};
    open_store(folder);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(commit(i));
    cr_assert_eq(kernel_store_list(store, &list, &error), 0);
    pump_until(n_listed == 1);
    cr_assert_eq(n_rows, 3);
    cr_assert_eq(kernel_store_list(store, &others, &error), 0);
    pump_until(n_listed == 2);
    cr_assert_eq(n_rows, 0);
    kernel_store_numbers(store, &numbers);
    pump_until(n_numbers == 1);
    cr_assert_eq(n_kernels, 3);
}

Test(kernel_store, closing_finishes_what_was_begun)
{
    enum { N = 20 };
    static struct commit commits[N];
    struct error error;
    struct lookup lookup = {.lookup = {.id = held_id(N - 1), .done = on_looked_up}, .number = N - 1};
    struct store_numbers numbers = {.done = on_numbers};
    open_store(folder);
    for (unsigned i = 0; i < N; i++) {
        commits[i].commit = (struct store_commit){.kernel = held_of(i, 500), .done = on_committed};
        kernel_store_commit(store, &commits[i].commit);
    }
    cr_assert_eq(kernel_store_look_up(store, &lookup.lookup, &error), 0);
    kernel_store_numbers(store, &numbers);
    close_store();
    for (unsigned i = 0; i < N; i++)
        cr_assert(commits[i].n_done == 1 && commits[i].stored);
    cr_assert(lookup.n_done == 1 && lookup.found);
    cr_assert_eq(n_numbers, 1);
}

Test(kernel_store, the_same_kernel_looked_up_twice_at_once)
{
    struct error error;
    struct lookup lookups[2] = {{.lookup = {.id = held_id(1), .done = on_looked_up}, .number = 1},
                                {.lookup = {.id = held_id(1), .done = on_looked_up}, .number = 1}};
    open_store(folder);
    cr_assert(commit(1));
    close_store();
    open_store(folder);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(kernel_store_look_up(store, &lookups[i].lookup, &error), 0);
    pump_until(lookups[0].n_done + lookups[1].n_done == 2);
    cr_assert(lookups[0].found && lookups[1].found);
    cr_assert_eq(stats.memory_kernels, 1);
}
