#include "daemon/overrides.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "daemon/base/log.h"
#include "daemon/sandbox/owned.h"

/* Texts that are kept. They are few: somebody edits them. */
#define MAX_KEPT 64
/* A file that changed this short a time before it was read may change again without another time stamp. */
#define SETTLED_NS 1000000000ll
/* Kernels of one connection whose order is remembered. */
#define MAX_ORDINALS 65536u

/* A text as it was read, and the file that it was read from. */
struct kept {
    UT_hash_handle hh;
    char name[OVERRIDE_NAME];
    struct stat status;
    bool settled;
    char *text;
    size_t size;
};

struct overrides {
    char *folder;
    struct kept *by_name;
    char said[ERROR_TEXT]; /* the last problem that was logged */
};

struct overrides *overrides_create(const char *folder)
{
    struct overrides *overrides = calloc(1, sizeof *overrides);
    if (overrides && !(overrides->folder = strdup(folder))) {
        free(overrides);
        return NULL;
    }
    return overrides;
}

static void drop(struct overrides *overrides, struct kept *kept)
{
    HASH_DEL(overrides->by_name, kept);
    free(kept->text);
    free(kept);
}

static void drop_all(struct overrides *overrides)
{
    struct kept *kept, *next;
    HASH_ITER(hh, overrides->by_name, kept, next)
    drop(overrides, kept);
}

void overrides_destroy(struct overrides *overrides)
{
    if (!overrides)
        return;
    drop_all(overrides);
    free(overrides->folder);
    free(overrides);
}

/* ---- what may be used ---- */

/* One line in the log each time that another thing is wrong. */
static void complain(struct overrides *overrides, struct override_note *note, const char *format, ...)
{
    va_list more;
    va_start(more, format);
    vsnprintf(note->problem, sizeof note->problem, format, more);
    va_end(more);
    if (strcmp(overrides->said, note->problem) == 0)
        return;
    memcpy(overrides->said, note->problem, sizeof overrides->said);
    log_event(LOG_WARNING, "override.unusable", "reason=\"%s\"", note->problem);
}

static int open_folder(struct overrides *overrides, struct override_note *note)
{
    struct stat status;
    int fd = open(overrides->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *why = fd < 0 || fstat(fd, &status) < 0 ? strerror(errno) : owned_distrust(&status);
    if (!why)
        return fd;
    complain(overrides, note, "the folder of overrides %.200s is not used: it %s%s", overrides->folder,
             fd < 0 ? "cannot be opened: " : "", why);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- reading ---- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool is_settled(const struct stat *status)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((long long)now.tv_sec - status->st_ctim.tv_sec) * 1000000000ll + now.tv_nsec - status->st_ctim.tv_nsec >
           SETTLED_NS;
}

/* The whole file; -1 with errno. */
static int read_whole(int fd, size_t size, char **ret, size_t *ret_size)
{
    size_t at = 0;
    ssize_t n = 1;
    char *text = malloc(size + 1);
    while (text && at < size && n > 0) {
        n = read(fd, text + at, size - at);
        at += n > 0 ? (size_t)n : 0;
    }
    if (!text || n < 0) {
        free(text);
        return -1;
    }
    text[at] = '\0';
    *ret = text;
    *ret_size = at;
    return 0;
}

static struct kept *keep(struct overrides *overrides, const char *name, const struct stat *status, char *text,
                         size_t size)
{
    if (HASH_COUNT(overrides->by_name) >= MAX_KEPT)
        drop_all(overrides);
    struct kept *kept = calloc(1, sizeof *kept);
    if (!kept) {
        free(text);
        return NULL;
    }
    snprintf(kept->name, sizeof kept->name, "%s", name);
    kept->status = *status;
    kept->settled = is_settled(status);
    kept->text = text;
    kept->size = size;
    HASH_ADD_STR(overrides->by_name, name, kept);
    return kept;
}

/* What is in an open file that may be used. */
static struct kept *read_file(struct overrides *overrides, const char *name, int fd, const struct stat *status,
                              struct override_note *note)
{
    struct kept *kept;
    char *text;
    size_t size;
    HASH_FIND_STR(overrides->by_name, name, kept);
    if (kept && kept->settled && is_same(&kept->status, status))
        return kept;
    if (kept)
        drop(overrides, kept);
    if (read_whole(fd, (size_t)status->st_size, &text, &size) < 0) {
        complain(overrides, note, "the override %.300s is not used: %s", name, strerror(errno));
        return NULL;
    }
    if (memchr(text, '\0', size)) {
        complain(overrides, note, "the override %.300s is not used: it holds a NUL byte", name);
        free(text);
        return NULL;
    }
    return keep(overrides, name, status, text, size);
}

static struct kept *look(struct overrides *overrides, int folder, const char *name, struct override_note *note)
{
    struct stat status;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT && errno != ENAMETOOLONG)
            complain(overrides, note, "the override %.300s is not used: %s", name,
                     errno == ELOOP ? "it is a symbolic link" : strerror(errno));
        return NULL;
    }
    struct kept *kept = NULL;
    const char *why = fstat(fd, &status) < 0 ? "cannot be looked at" : owned_distrust(&status);
    if (why || !S_ISREG(status.st_mode))
        complain(overrides, note, "the override %.300s is not used: it %s", name, why ? why : "is no regular file");
    else if (status.st_size > LIMIT_INLINE)
        complain(overrides, note, "the override %.300s is not used: its %lld bytes are above the limit of %u", name,
                 (long long)status.st_size, LIMIT_INLINE);
    else
        kept = read_file(overrides, name, fd, &status, note);
    close(fd);
    return kept;
}

/* "<label>.<ordinal>.cu" */
static void name_by_label(struct text label, unsigned ordinal, char ret[OVERRIDE_NAME])
{
    size_t n = 0;
    for (size_t i = 0; i < label.size && n < LIMIT_NAME; i++) {
        unsigned char c = (unsigned char)label.at[i];
        bool stays = isalnum(c) || c == '-' || c == '_' || (c == '.' && n > 0);
        ret[n++] = stays ? (char)c : '_';
    }
    snprintf(ret + n, OVERRIDE_NAME - n, ".%u.cu", ordinal);
}

struct text overrides_find(struct overrides *overrides, const uint8_t key[KEY_SIZE], struct text label,
                           struct override_note *note)
{
    char hex[KEY_HEX], name[OVERRIDE_NAME];
    int folder = open_folder(overrides, note);
    if (folder < 0)
        return (struct text){NULL, 0};
    key_to_hex(key, hex);
    snprintf(name, sizeof name, "%s.cu", hex);
    struct kept *kept = look(overrides, folder, name, note);
    if (!kept && label.at && note->ordinal) {
        name_by_label(label, note->ordinal, name);
        kept = look(overrides, folder, name, note);
    }
    close(folder);
    if (!kept)
        return (struct text){NULL, 0};
    memcpy(note->file, kept->name, sizeof note->file);
    memcpy(note->original, key, sizeof note->original);
    return (struct text){kept->text, kept->size};
}

/* ---- ordinals ---- */

struct ordinal {
    uint8_t label[DIGEST_SIZE];
    uint8_t key[KEY_SIZE];
};

void ordinals_finish(struct ordinals *ordinals)
{
    free(ordinals->at);
    *ordinals = (struct ordinals){0};
}

static bool make_room(struct ordinals *ordinals)
{
    if (ordinals->n < ordinals->room)
        return true;
    size_t room = ordinals->room ? 2 * ordinals->room : 64;
    struct ordinal *at = room <= MAX_ORDINALS ? reallocarray(ordinals->at, room, sizeof *at) : NULL;
    if (!at)
        return false;
    ordinals->at = at;
    ordinals->room = room;
    return true;
}

/* One walk over what a connection has asked for: this is for debugging. */
unsigned ordinals_of(struct ordinals *ordinals, struct text label, const uint8_t key[KEY_SIZE])
{
    uint8_t digest[DIGEST_SIZE];
    unsigned n = 0;
    if (!label.at)
        return 0;
    digest_of(label.at, label.size, digest);
    for (size_t i = 0; i < ordinals->n; i++) {
        if (memcmp(ordinals->at[i].label, digest, sizeof digest) != 0)
            continue;
        n++;
        if (memcmp(ordinals->at[i].key, key, KEY_SIZE) == 0)
            return n;
    }
    if (!make_room(ordinals))
        return 0;
    memcpy(ordinals->at[ordinals->n].label, digest, sizeof digest);
    memcpy(ordinals->at[ordinals->n++].key, key, KEY_SIZE);
    return n + 1;
}
