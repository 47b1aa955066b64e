#include "daemon/resolve/identifiers.h"

#include <string.h>

#include "daemon/resolve/tokens.h"

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

bool code_names(struct text code, const char *identifier)
{
    struct text wanted = text_of(identifier);
    struct tokens tokens = tokens_of(code);
    struct token token;
    /* Most codes do not hold the bytes at all. */
    if (code.size == 0 || !memmem(code.at, code.size, wanted.at, wanted.size))
        return false;
    while (tokens_next(&tokens, &token))
        if (token_names(&token, wanted))
            return true;
    return false;
}
