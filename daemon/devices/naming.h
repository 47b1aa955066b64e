/* Which of the daemon's devices a client means. Pure functions of their arguments. */
#ifndef DAEMON_DEVICES_NAMING_H
#define DAEMON_DEVICES_NAMING_H

#include <stddef.h>

#include "proto/error.h"
#include "proto/message.h"

/* As many as a reply lists. */
#define DEVICES_MAX 64

/* How a client counts CUDA devices: its CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, as its greeting told them. NULL is
 * a variable that is not set, which is not the same as an empty one. */
struct device_view {
    const char *visible;
    const char *order;
};

/* The CUDA devices that the client sees, in its order: indices into `devices`, of which there are at most DEVICES_MAX.
 * Returns how many. The rules are CUDA's own, as driver 580 keeps them:
 *
 * - Without CUDA_VISIBLE_DEVICES all are seen. Else it is a list with commas, and the first entry that names no device
 *   (an empty one, -1) ends it.
 * - When the first entry begins with GPU- or MIG-, entries are beginnings of UUIDs, in either case of letters, that
 *   only one device has. Else they are numbers; what stands behind a number or UUID is ignored.
 * - A device that is named twice makes all of them invisible.
 * - Numbers count in the order of CUDA_DEVICE_ORDER: FASTEST_FIRST, also when it is not set, is the daemon's own;
 *   PCI_BUS_ID is by bus id, and with another value no device is seen. */
size_t naming_visible(const struct device *devices, size_t n, const struct device_view *view, size_t ret[DEVICES_MAX]);

/* The device of a name: "host"; a number as the client counts; a UUID or the beginning of one, whether the client sees
 * that device or not; absent is the first CUDA device that it sees, or else the host device. -1 with NO_DEVICE, which
 * names what was asked and what there is. */
int naming_choose(const struct device *devices, size_t n, const struct device_view *view, struct text name, size_t *ret,
                  struct error *error);

/* "host", or the number of a CUDA device as the daemon counts: for messages, and what an executor is started with. */
#define DEVICE_LABEL 16
void device_label(enum device_kind kind, uint64_t ordinal, char ret[DEVICE_LABEL]);

#endif
