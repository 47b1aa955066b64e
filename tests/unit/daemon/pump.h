/* For tests of things on a loop: a loop that turns until something holds, and never for longer than a bound. */
#ifndef TESTS_UNIT_DAEMON_PUMP_H
#define TESTS_UNIT_DAEMON_PUMP_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

/* The test's loop. */
extern uv_loop_t *loop;

/* For .init and .fini. The end fails the test when a handle is left open, or a descriptor that was not there at the
 * beginning. */
void pump_start(void);
void pump_finish(void);

/* Turn the loop once, waiting for something to happen. false: nothing did within the bound. */
bool pump_turn(void);
/* Begin to count the bound anew. */
void pump_rearm(void);

/* Turn the loop until the condition holds. */
#define pump_until(condition)                                                                                          \
    do {                                                                                                               \
        pump_rearm();                                                                                                  \
        while (!(condition))                                                                                           \
            cr_assert(pump_turn(), "it never came: %s", #condition);                                                   \
    } while (0)

/* Turn the loop for what is due at once: callbacks that must not come would come now. */
void pump_settle(void);

/* A temporary folder, one per test process; removed by folder_remove with all it holds. */
extern char folder[64];
void folder_create(void);
void folder_remove(void);
/* "<folder>/<name>", in a buffer that the next call but three reuses. */
const char *folder_path(const char *name);
void file_write(const char *path, const char *text);
bool file_exists(const char *path);

/* What is written to stderr from capture_start to capture_end; the text is the test's until the next start. */
void capture_start(void);
const char *capture_end(void);

#endif
