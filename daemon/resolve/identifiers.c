#include "daemon/resolve/identifiers.h"

#include <string.h>

static bool starts_identifier(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool continues_identifier(char c)
{
    return starts_identifier(c) || is_digit(c);
}

bool is_identifier(struct text text)
{
    if (text.size == 0 || !starts_identifier(text.at[0]))
        return false;
    for (size_t i = 1; i < text.size; i++)
        if (!continues_identifier(text.at[i]))
            return false;
    return true;
}

/* Where the needle begins in [at, end), or end. */
static const char *find(const char *at, const char *end, const char *needle, size_t size)
{
    const char *found = memmem(at, (size_t)(end - at), needle, size);
    return found ? found : end;
}

/* Behind the string or character literal that begins at the quote `at`. An unterminated one ends with its line, so
 * that a stray quote cannot hide the rest of the code. */
static const char *skip_quoted(const char *at, const char *end)
{
    char quote = *at++;
    for (; at < end && *at != quote && *at != '\n'; at++)
        if (*at == '\\' && at + 1 < end)
            at++;
    return at < end ? at + 1 : end;
}

/* Behind the raw string whose quote is at `at`: R"tag( … )tag". A tag that the language does not allow makes
 * it no raw string. */
static const char *skip_raw(const char *at, const char *end)
{
    char close[19] = ")";
    size_t tag = 0;
    for (const char *p = at + 1; p < end && *p != '('; p++) {
        if (tag == 16 || *p == '"' || *p == '\\' || *p == '\n')
            return skip_quoted(at, end);
        close[++tag] = *p;
    }
    close[++tag] = '"';
    const char *found = find(at + 1, end, close, tag + 1);
    return found == end ? end : found + tag + 1;
}

static const char *skip_comment(const char *at, const char *end)
{
    if (at[1] == '*') {
        const char *close = find(at + 2, end, "*/", 2);
        return close == end ? end : close + 2;
    }
    /* A line comment goes on after a backslash at the end of the line. */
    for (at += 2; at < end; at++)
        if (*at == '\n' && at[-1] != '\\' && !(at[-1] == '\r' && at[-2] == '\\'))
            return at;
    return end;
}

/* Behind a number, whose letters are no identifiers and whose ' separates digits. */
static const char *skip_number(const char *at, const char *end)
{
    while (at < end &&
           (continues_identifier(*at) || *at == '.' || (*at == '\'' && at + 1 < end && continues_identifier(at[1]))))
        at++;
    return at;
}

static bool is_raw_prefix(const char *at, size_t size)
{
    static const char *const prefixes[] = {"R", "LR", "uR", "UR", "u8R"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strlen(prefixes[i]) == size && memcmp(at, prefixes[i], size) == 0)
            return true;
    return false;
}

bool code_names(struct text code, const char *identifier)
{
    size_t wanted = strlen(identifier);
    const char *end = code.at + code.size;
    /* Most codes do not hold the bytes at all. */
    for (const char *at = find(code.at, end, identifier, wanted) == end ? end : code.at; at < end;) {
        if (starts_identifier(*at)) {
            const char *from = at;
            while (at < end && continues_identifier(*at))
                at++;
            size_t size = (size_t)(at - from);
            if (size == wanted && memcmp(from, identifier, size) == 0)
                return true;
            if (at < end && *at == '"' && is_raw_prefix(from, size))
                at = skip_raw(at, end);
        } else if (is_digit(*at)) {
            at = skip_number(at, end);
        } else if (*at == '"' || *at == '\'') {
            at = skip_quoted(at, end);
        } else if (*at == '/' && at + 1 < end && (at[1] == '/' || at[1] == '*')) {
            at = skip_comment(at, end);
        } else {
            at++;
        }
    }
    return false;
}
