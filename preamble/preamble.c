/* The embedded modules: their digests, and the choice of those that a text needs. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <sodium.h>

#include "preamble/embed.h"
#include "preamble/preamble.h"

static pthread_once_t prepared = PTHREAD_ONCE_INIT;

/* Per first byte, the lengths of the identifiers that begin with it, one bit each: most words of a text are foreign,
 * and are known to be so before they are hashed. */
static uint64_t lengths_by_first[256];

static uint64_t length_bit(size_t size)
{
    return UINT64_C(1) << (size < 63 ? size : 63);
}

static void prepare(void)
{
    for (uint32_t i = 0; i <= preamble_words_mask; i++)
        if (preamble_words[i].text)
            lengths_by_first[(unsigned char)preamble_words[i].text[0]] |= length_bit(preamble_words[i].size);
    /* No sodium_init is needed for this: it only picks a faster variant of the hash. */
    for (size_t i = 0; i < preamble_count; i++) {
        struct preamble_module *module = &preamble_embedded[i];
        crypto_generichash(module->digest, sizeof(module->digest), (const unsigned char *)module->text, module->size,
                           NULL, 0);
    }
}

const struct preamble_module *preamble_modules(void)
{
    pthread_once(&prepared, prepare);
    return preamble_embedded;
}

int preamble_find(const char *name)
{
    for (size_t i = 0; i < preamble_count; i++)
        if (strcmp(preamble_embedded[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* ---- A tokenizer that knows just enough C++ to tell identifiers from everything else. */

enum {
    LETTER = 1, /* may start an identifier; bytes of UTF-8 sequences too */
    DIGIT = 2,
    WORD = LETTER | DIGIT, /* may go on with one */
    MARK = 4,              /* begins a literal, or perhaps a comment */
};

static const unsigned char kinds[256] = {
    ['a' ... 'z'] = LETTER, ['A' ... 'Z'] = LETTER, ['_'] = LETTER, ['$'] = LETTER, ['\x80' & 0xff ... 0xff] = LETTER,
    ['0' ... '9'] = DIGIT,  ['"'] = MARK,           ['\''] = MARK,  ['/'] = MARK,
};

struct cursor {
    const char *at;
    const char *end;
};

static bool looking_at(const struct cursor *cursor, char a, char b)
{
    return cursor->end - cursor->at >= 2 && cursor->at[0] == a && cursor->at[1] == b;
}

/* Past a comment that starts here. One without an end takes the rest. */
static void skip_line_comment(struct cursor *cursor)
{
    const char *at = cursor->at + 2;
    while (at < cursor->end) {
        const char *feed = memchr(at, '\n', (size_t)(cursor->end - at));
        if (!feed)
            break;
        at = feed + 1;
        /* A backslash in front of the line's end continues the comment. */
        const char *last = feed[-1] == '\r' ? feed - 2 : feed - 1;
        if (*last != '\\') {
            cursor->at = feed;
            return;
        }
    }
    cursor->at = cursor->end;
}

static void skip_block_comment(struct cursor *cursor)
{
    cursor->at += 2;
    while (cursor->at < cursor->end) {
        const char *star = memchr(cursor->at, '*', (size_t)(cursor->end - cursor->at));
        if (!star)
            break;
        cursor->at = star + 1;
        if (cursor->at < cursor->end && *cursor->at == '/') {
            cursor->at++;
            return;
        }
    }
    cursor->at = cursor->end;
}

/* Past a string or character literal, at its opening quote. It ends at its line's end at the latest: an apostrophe in
 * a disabled part or an #error must not swallow the code behind it. */
static void skip_quoted(struct cursor *cursor)
{
    char quote = *cursor->at++;
    while (cursor->at < cursor->end) {
        char c = *cursor->at++;
        if (c == '\\' && cursor->at < cursor->end) {
            /* An escape, or a line's end (of one or two bytes) that is none. */
            if (looking_at(cursor, '\r', '\n'))
                cursor->at++;
            cursor->at++;
        } else if (c == quote || c == '\n') {
            return;
        }
    }
}

/* Past R"delimiter( … )delimiter", at its quote. */
static void skip_raw(struct cursor *cursor)
{
    const char *delimiter = cursor->at + 1;
    const char *open = delimiter;
    while (open < cursor->end && open - delimiter <= 16 && *open != '(' && *open != '"' && *open != '\n')
        open++;
    if (open == cursor->end || *open != '(' || open - delimiter > 16) {
        skip_quoted(cursor); /* no raw string after all */
        return;
    }
    size_t size = (size_t)(open - delimiter);
    cursor->at = open + 1;
    while (cursor->at < cursor->end) {
        const char *close = memchr(cursor->at, ')', (size_t)(cursor->end - cursor->at));
        if (!close)
            break;
        cursor->at = close + 1;
        if ((size_t)(cursor->end - cursor->at) > size && memcmp(cursor->at, delimiter, size) == 0 &&
            cursor->at[size] == '"') {
            cursor->at += size + 1;
            return;
        }
    }
    cursor->at = cursor->end;
}

/* Past a preprocessing number: 1'000, 0x1p-3, 1.5e+3f, 42LL. */
static void skip_number(struct cursor *cursor)
{
    while (cursor->at < cursor->end) {
        unsigned char c = (unsigned char)*cursor->at;
        if (kinds[c] & WORD || c == '.') {
            cursor->at++;
            continue;
        }
        unsigned char last = (unsigned char)(cursor->at[-1] | 0x20);
        bool separator = c == '\'' && cursor->at + 1 < cursor->end && kinds[(unsigned char)cursor->at[1]] & WORD;
        bool sign = (c == '+' || c == '-') && (last == 'e' || last == 'p');
        if (!separator && !sign)
            return;
        cursor->at++;
    }
}

/* The modules that provide the identifier that starts here, by bit; 0 for a foreign one. Moves past it. */
static uint64_t read_word(struct cursor *cursor)
{
    const char *start = cursor->at, *at = start + 1;
    while (at < cursor->end && kinds[(unsigned char)*at] & WORD)
        at++;
    cursor->at = at;
    size_t size = (size_t)(at - start);
    if (cursor->at < cursor->end && *cursor->at == '"' && cursor->at[-1] == 'R' &&
        (size == 1 || (size == 2 && strchr("uUL", start[0])) || (size == 3 && memcmp(start, "u8", 2) == 0))) {
        skip_raw(cursor);
        return 0;
    }
    if (!(lengths_by_first[(unsigned char)*start] & length_bit(size)))
        return 0;
    uint32_t hash = PREAMBLE_HASH_START;
    for (size_t i = 0; i < size; i++)
        hash = preamble_hash(hash, (unsigned char)start[i]);
    for (uint32_t slot = hash & preamble_words_mask; preamble_words[slot].text;
         slot = (slot + 1) & preamble_words_mask) {
        const struct preamble_word *word = &preamble_words[slot];
        if (word->hash == hash && word->size == size && memcmp(word->text, start, size) == 0)
            return word->modules;
    }
    return 0;
}

static uint64_t used_modules(const char *code, size_t size)
{
    struct cursor cursor = {code, code + size};
    uint64_t modules = 0;
    while (cursor.at < cursor.end) {
        unsigned char c = (unsigned char)*cursor.at;
        if (kinds[c] == 0) {
            cursor.at++;
        } else if (kinds[c] == LETTER) {
            modules |= read_word(&cursor);
        } else if (kinds[c] == DIGIT) {
            cursor.at++;
            skip_number(&cursor);
        } else if (c == '"' || c == '\'') {
            skip_quoted(&cursor);
        } else if (looking_at(&cursor, '/', '/')) {
            skip_line_comment(&cursor);
        } else if (looking_at(&cursor, '/', '*')) {
            skip_block_comment(&cursor);
        } else {
            cursor.at++;
        }
    }
    return modules;
}

size_t preamble_closure(const char *code, size_t size, uint8_t ret[PREAMBLE_MAX])
{
    pthread_once(&prepared, prepare);
    uint64_t used = used_modules(code, size);
    uint64_t all = 0;
    for (size_t i = 0; i < preamble_count; i++)
        if (used >> i & 1)
            all |= preamble_closures[i];
    all &= ~preamble_index_modules;
    size_t n = 0;
    for (size_t i = 0; i < preamble_count; i++)
        if (all >> i & 1)
            ret[n++] = (uint8_t)i;
    return n;
}
