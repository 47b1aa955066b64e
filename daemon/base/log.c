#include "daemon/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/require.h"

#define LINE_SIZE 2048

static const char *const names[] = {"error", "warning", "info", "debug"};
static enum log_level threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
    threshold = level;
}

bool log_set_level_by_name(const char *name)
{
    for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
        if (strcmp(name, names[level]) == 0) {
            threshold = (enum log_level)level;
            return true;
        }
    }
    return false;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    char line[LINE_SIZE];
    struct timespec now;
    struct tm parts;
    va_list args;

    if (level > threshold)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &parts);
    used +=
        (size_t)snprintf(line + used, sizeof line - used, ".%03ldZ %s %s ", now.tv_nsec / 1000000, names[level], event);
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    if (more > 0)
        used += (size_t)more;
    if (used > sizeof line - 2)
        used = sizeof line - 2;
    for (size_t i = 0; i < used; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[used++] = '\n';
    /* One write, so that lines of several processes do not mix. A log that cannot be written is no reason to stop. */
    if (write(STDERR_FILENO, line, used) < 0)
        return;
}

void require_failed(const char *condition, const char *file, int line)
{
    log_event(LOG_ERROR, "require.failed", "file=%s line=%d condition=\"%s\"", file, line, condition);
    abort();
}
