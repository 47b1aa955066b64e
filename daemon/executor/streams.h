/*
 * The streams of a session, by number; number 0 is there from the start. A stream counts what is queued on it and what
 * of that is known to be done, by marks:
 *
 *   stream_queued … stream_settle            work that is answered already: its errors are told by the next synchronize
 *   stream_settle, stream_queued, stream_mark   work with an answer of its own: its errors are that answer
 *
 * A mark thus never covers both kinds.
 */
#ifndef DAEMON_EXECUTOR_STREAMS_H
#define DAEMON_EXECUTOR_STREAMS_H

#include "daemon/base/list.h"
#include "daemon/executor/device.h"
#include "daemon/executor/table.h"

struct buffer;
struct defined;
struct session;
struct stream;

/* Embedded in whoever waits; must live until done. */
struct stream_mark {
    struct device_mark device;
    struct stream *stream;
    size_t queued, launches;      /* how many of the stream's it covers */
    const struct defined *launch; /* the only one that it covers, if that is so */
    uint64_t moment;              /* of the session when the stream went on after it */
    /* Everything before it is done; error: the first failure among what it covers. Called once, on the loop. */
    void (*done)(struct stream_mark *mark, const struct error *error);
};

/* Owned by the session. */
struct stream {
    UT_hash_handle hh;
    uint64_t number;
    struct session *session;
    struct device_stream *device;
    struct list busy;                   /* in session->busy while anything of it is not known to be done */
    size_t marks;                       /* on their way */
    size_t queued, launches;            /* not known to be done … */
    size_t unmarked, launches_unmarked; /* … of which no mark tells yet */
    uint64_t done_until;                /* what it queued up to this moment of the session is done */
    const struct defined *last;         /* whose launch was the last one */
    struct buffer *scratch;             /* intermediates: its launches use them one after the other; NULL: none yet */
    struct error failed;        /* the first failure since the last synchronize that nobody was told of; code 0: none */
    struct stream_mark *latest; /* the last mark, while nothing is queued behind it; else NULL */
    struct stream_mark farewell; /* the last mark of all */
    bool destroyed;              /* the number is gone; the rest goes when its work is done */
};

struct streams {
    struct stream *by_number;
    uint64_t next;
    struct session *session;
};

int streams_init(struct streams *streams, struct session *session, struct error *error);
/* Nothing of them is under way. */
void streams_finish(struct streams *streams);

int streams_create(struct streams *streams, int64_t priority, struct stream **ret, struct error *error);
/* NULL with UNKNOWN_HANDLE. */
struct stream *streams_find(const struct streams *streams, uint64_t number, struct error *error);
/* The number is gone; the rest goes once its work is done. */
void stream_destroy(struct stream *stream);

/* One operation more has been queued on the device's stream; `launch`: NULL when it is none. */
void stream_queued(struct stream *stream, const struct defined *launch);
/* Have a mark tell of everything that none tells of yet. */
void stream_settle(struct stream *stream);
/* The same with the caller's mark, also when nothing is queued. */
void stream_mark(struct stream *stream, struct stream_mark *mark,
                 void (*done)(struct stream_mark *mark, const struct error *error));
/* stream_settle without memory, for a stream that nothing will be queued on any more. */
void stream_say_farewell(struct stream *stream);

#endif
