/* The service manager's protocol: readiness out, listening sockets in. No library: both are a few lines of text. */
#ifndef DAEMON_BASE_NOTIFY_H
#define DAEMON_BASE_NOTIFY_H

/* Send "READY=1" and the like to $NOTIFY_SOCKET; nothing happens without one. */
void notify_send(const char *state);

/* The listening socket that a service manager passed ($LISTEN_FDS, $LISTEN_PID), or -1. */
int notify_listen_fd(void);

#endif
