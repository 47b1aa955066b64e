/* Log lines on stderr: "<level> <event> key=value …", one event a line, for people and for journald. */
#ifndef DAEMON_BASE_LOG_H
#define DAEMON_BASE_LOG_H

#include <stdbool.h>

enum log_level {
    LOG_ERROR,
    LOG_WARNING,
    LOG_INFO,
    LOG_DEBUG,
};

/* Lines above the level are dropped. Starts at LOG_INFO. */
void log_set_level(enum log_level level);
/* "error", "warning", "info", "debug". false: there is no such level, and nothing is changed. */
bool log_set_level_by_name(const char *name);

/* event: a fixed word such as "compile" or "worker.died". The rest is `key=value` pairs, formatted; control
 * characters in it are replaced, so that a peer's text can never forge a line. */
void log_event(enum log_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
