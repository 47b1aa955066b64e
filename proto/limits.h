/* Every cap on what a peer may send, in one place, each with its reason. */
#ifndef PROTO_LIMITS_H
#define PROTO_LIMITS_H

/* Bytes of the length prefix in front of every frame. */
#define LIMIT_FRAME_HEADER 4u
/* A frame before `hello`: a greeting has no business being larger. */
#define LIMIT_FRAME_GREETING 4096u
/* A frame after `hello`: room for a fusion with many inline headers. */
#define LIMIT_FRAME (16u << 20)
/* A frame on the channel between the front and its own workers: image, PTX and log together. */
#define LIMIT_FRAME_WORKER (128u << 20)

/* One inline byte string or one source text; more travels as a memfd. */
#define LIMIT_INLINE (1u << 20)
/* An image that a reply carries inline; a larger one is a sealed memfd, which costs no copy. */
#define LIMIT_INLINE_IMAGE (128u << 10)
/* A program as the compiler gets it: the code, and below. */
#define LIMIT_PROGRAM (3u << 20)
/* What stands in front of the code: LIMIT_DEFINES definitions, and includes. */
#define LIMIT_BEFORE (2u << 20)
/* What stands behind it: at most a table with LIMIT_ENTRIES names. */
#define LIMIT_BEHIND (256u << 10)
/* A blob sent as a memfd. */
#define LIMIT_BLOB (64u << 20)
/* All headers of one fusion together: they travel to a worker in one frame, with the program. */
#define LIMIT_HEADER_BYTES (96u << 20)
/* An image as a worker may return it. */
#define LIMIT_IMAGE (64u << 20)

/* Nesting of maps and arrays: the deepest message needs 7. */
#define LIMIT_DEPTH 12u
/* Values in one frame. msgpack-c spends 24 bytes on each, so this bounds decoding to 3 MiB. */
#define LIMIT_VALUES 131072u
/* Keys in one map: above the largest message, and small enough for a quadratic duplicate check. */
#define LIMIT_MAP 96u
/* One key: above the longest field name, and short enough that the same check compares few bytes. */
#define LIMIT_KEY 64u
/* File descriptors in one frame. */
#define LIMIT_FDS 4u

/* Request ids are 32-bit, as in MessagePack-RPC. */
#define LIMIT_REQUEST_ID 0xffffffffu
/* A method's name. */
#define LIMIT_METHOD 32u

/* Names of fusions, entries, parameters, labels, include names. */
#define LIMIT_NAME 512u
/* Entries of one fusion, its headers, its defines, its parameters, its sample tensors. */
#define LIMIT_ENTRIES 64u
#define LIMIT_HEADERS 16384u
#define LIMIT_DEFINES 256u
#define LIMIT_PARAMS 1024u
/* Dimensions of a tensor. */
#define LIMIT_RANK 32u
/* An integer expression in a launch description. */
#define LIMIT_EXPRESSION 1024u

/* Bytes of one buffer: what a 48-bit address space holds. */
#define LIMIT_BUFFER (1ull << 47)
/* Fusions, buffers and streams of one direct channel, each: a client that makes more of them leaks them. */
#define LIMIT_HANDLES 65536u
/* Repeats of one timed run: each is a number in the reply. */
#define LIMIT_REPEATS 10000u

/* A compiler log; a longer one is cut here and marked (it can reach gigabytes). */
#define LIMIT_LOG (64u << 10)
/* Structured diagnostics kept from one log. */
#define LIMIT_DIAGNOSTICS 256u
/* Rows in one `kernel.list` reply. */
#define LIMIT_LIST 1000u
/* A request may ask for at most this long a compile. */
#define LIMIT_DEADLINE_MS 3600000u

#endif
