/* Where the daemon's socket is when nobody says: the rule that daemon and clients share. */
#ifndef PROTO_SOCKET_PATH_H
#define PROTO_SOCKET_PATH_H

#include <stddef.h>

/* The longest path that a Unix socket can have, its NUL included. */
#define SOCKET_PATH 108

/* The socket of a system-wide daemon. */
#define SOCKET_PATH_SYSTEM "/run/fusiond/fusiond.sock"

/* The socket of the calling user's daemon: in $XDG_RUNTIME_DIR; without one, root's is the system's, and anybody else's
 * is in /tmp/fusiond-<uid>, which daemon and client accept only if it is theirs alone. -1 when the path is too long. */
int socket_path_default(char ret[SOCKET_PATH]);

#endif
