/* When it is worth starting an executor again: devices whose executors do not get ready, each with an ever longer
 * pause, and after a few in a row with a reason for those who ask. One start that works forgets it all. */
#ifndef DAEMON_DEVICES_RESTARTS_H
#define DAEMON_DEVICES_RESTARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/devices/executor.h"

/* Starts in a row that fail before those who wait are told. */
#define RESTARTS_TRIED 3

/* Embedded in its owner. Times are milliseconds of any one clock that does not jump. */
struct restarts {
    struct list troubles; /* struct trouble */
};

/* A device whose executors do not start. */
struct trouble {
    struct list link;
    struct device_id device;
    unsigned failed;
    uint64_t until_ms; /* no start before that */
    char reason[ERROR_TEXT];
};

void restarts_init(struct restarts *restarts);
void restarts_finish(struct restarts *restarts);

void restarts_note_failure(struct restarts *restarts, const struct device_id *device, uint64_t now_ms, const char *why);
void restarts_note_success(struct restarts *restarts, const struct device_id *device);

/* The device's trouble while its pause lasts; NULL: start. */
const struct trouble *restarts_paused(const struct restarts *restarts, const struct device_id *device, uint64_t now_ms);

#endif
