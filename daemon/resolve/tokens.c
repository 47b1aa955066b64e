#include "daemon/resolve/tokens.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool starts_identifier(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool continues_identifier(char c)
{
    return starts_identifier(c) || is_digit(c);
}

/* Where the needle begins in [at, end), or end. */
static const char *find(const char *at, const char *end, const char *needle, size_t size)
{
    const char *found = memmem(at, (size_t)(end - at), needle, size);
    return found ? found : end;
}

/* ---- behind what begins at `at` ---- */

static const char *skip_quoted(const char *at, const char *end)
{
    char quote = *at++;
    for (; at < end && *at != quote && *at != '\n'; at++)
        if (*at == '\\' && at + 1 < end)
            at++;
    return at < end && *at == quote ? at + 1 : at;
}

/* The raw string whose quote is at `at`: R"tag( … )tag". A tag that the language does not allow makes it no raw
 * string. */
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

static const char *skip_number(const char *at, const char *end)
{
    while (at < end &&
           (continues_identifier(*at) || *at == '.' || (*at == '\'' && at + 1 < end && continues_identifier(at[1]))))
        at++;
    return at;
}

static const char *skip_identifier(const char *at, const char *end)
{
    while (at < end && continues_identifier(*at))
        at++;
    return at;
}

/* Behind the splice at `at`, or NULL when it is a lone backslash. */
static const char *skip_splice(const char *at, const char *end)
{
    at++;
    if (at < end && *at == '\r')
        at++;
    return at < end && *at == '\n' ? at + 1 : NULL;
}

static bool is_raw_prefix(const char *at, size_t size)
{
    static const char *const prefixes[] = {"R", "LR", "uR", "UR", "u8R"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strlen(prefixes[i]) == size && memcmp(at, prefixes[i], size) == 0)
            return true;
    return false;
}

/* ---- reading ---- */

struct tokens tokens_of(struct text code)
{
    return (struct tokens){.at = code.at, .end = code.at + code.size, .line_start = true};
}

static void skip_blanks(struct tokens *tokens)
{
    while (tokens->at < tokens->end) {
        char c = *tokens->at;
        if (c == '\n') {
            tokens->line_start = true;
            tokens->directive = false;
            tokens->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f') {
            tokens->at++;
        } else if (c == '/' && tokens->at + 1 < tokens->end && (tokens->at[1] == '/' || tokens->at[1] == '*')) {
            tokens->at = skip_comment(tokens->at, tokens->end);
        } else {
            return;
        }
    }
}

/* The kind of the token that begins at `at`, and where it ends. */
static enum token_kind measure(const char *at, const char *end, const char **ret_end)
{
    if (starts_identifier(*at)) {
        *ret_end = skip_identifier(at, end);
        if (*ret_end == end || **ret_end != '"' || !is_raw_prefix(at, (size_t)(*ret_end - at)))
            return TOKEN_IDENTIFIER;
        *ret_end = skip_raw(*ret_end, end);
        return TOKEN_STRING;
    }
    if (is_digit(*at) || (*at == '.' && at + 1 < end && is_digit(at[1]))) {
        *ret_end = skip_number(at, end);
        return TOKEN_NUMBER;
    }
    if (*at == '"' || *at == '\'') {
        *ret_end = skip_quoted(at, end);
        return TOKEN_STRING;
    }
    *ret_end = *at == '\\' ? skip_splice(at, end) : NULL;
    if (*ret_end)
        return TOKEN_SPLICE;
    *ret_end = at + 1;
    return TOKEN_OTHER;
}

bool tokens_next(struct tokens *tokens, struct token *ret)
{
    const char *end;
    skip_blanks(tokens);
    const char *at = tokens->at;
    if (at >= tokens->end)
        return false;
    /* "%:" is another spelling of "#". */
    bool begins = tokens->line_start && (*at == '#' || (*at == '%' && at + 1 < tokens->end && at[1] == ':'));
    tokens->directive = tokens->directive || begins;
    enum token_kind kind = measure(at, tokens->end, &end);
    /* A splice at the beginning of a line is none of its tokens. */
    tokens->line_start = tokens->line_start && kind == TOKEN_SPLICE;
    tokens->at = end;
    *ret = (struct token){kind, {at, (size_t)(end - at)}, tokens->directive, begins};
    return true;
}

bool token_names(const struct token *token, struct text identifier)
{
    return token->kind == TOKEN_IDENTIFIER && token->text.size == identifier.size &&
           memcmp(token->text.at, identifier.at, identifier.size) == 0;
}

bool token_is(const struct token *token, char character)
{
    return token->kind == TOKEN_OTHER && *token->text.at == character;
}
