/* A thread that does one job after another, and gives each back to the loop. */
#ifndef DAEMON_BASE_MAILBOX_H
#define DAEMON_BASE_MAILBOX_H

#include <stdbool.h>
#include <uv.h>

#include "daemon/base/list.h"

/* One job, embedded in whatever it carries. It belongs to the thread from mailbox_post until `done` is called. */
struct mail {
    struct list link;
    void (*work)(struct mail *mail, void *state); /* on the thread */
    void (*done)(struct mail *mail);              /* on the loop, once */
};

struct mailbox {
    uv_thread_t thread;
    uv_async_t wake;
    uv_mutex_t lock; /* over the two lists and `stopping` */
    uv_cond_t posted;
    struct list waiting;
    struct list finished;
    bool stopping;
    bool joined;
    void *state;
    void (*on_stopped)(struct mailbox *mailbox);
};

/* Start the thread; `state` is what `work` is given and belongs to the thread until the mailbox has stopped. */
int mailbox_start(struct mailbox *mailbox, uv_loop_t *loop, void *state);

/* Queue a job. Jobs are done in order. */
void mailbox_post(struct mailbox *mailbox, struct mail *mail);

/* Finish the queued jobs, end the thread, call back once all `done`s were called. No job may be posted any more. */
void mailbox_stop(struct mailbox *mailbox, void (*on_stopped)(struct mailbox *mailbox));

#endif
