#include "daemon/compile/prefix.h"

#include <string.h>

/* The character at a place; NUL, which no program holds, behind the end. */
static char look(const struct prefix *prefix, size_t at)
{
    return at < prefix->program.size ? prefix->program.at[at] : '\0';
}

static bool looks_like(const struct prefix *prefix, size_t at, const char *word)
{
    size_t size = strlen(word);
    return at + size <= prefix->program.size && memcmp(prefix->program.at + at, word, size) == 0;
}

/* A line that goes on in the next one, by a backslash or its trigraph, or one that ends as no other does. Compilers
 * differ in what they make of them. */
static bool is_odd(const struct prefix *prefix, size_t at)
{
    char c = look(prefix, at);
    return c == '\\' || looks_like(prefix, at, "?\?/") || (c == '\r' && look(prefix, at + 1) != '\n');
}

/* Behind a comment that begins at *at. false: it does not end, or is odd, or is longer than one line and must not be.
 */
static bool pass_comment(const struct prefix *prefix, size_t *at, bool one_line)
{
    bool block = look(prefix, *at + 1) == '*';
    for (size_t i = *at + 2; i < prefix->program.size; i++) {
        if (is_odd(prefix, i) || (block && one_line && look(prefix, i) == '\n'))
            return false;
        if (block ? looks_like(prefix, i, "*/") : look(prefix, i) == '\n') {
            *at = block ? i + 2 : i;
            return true;
        }
    }
    *at = prefix->program.size;
    return !block;
}

/* Behind blanks and comments, of one line or of many. false: what is there is odd. */
static bool pass_blanks(const struct prefix *prefix, size_t *at, bool one_line)
{
    for (;;) {
        char c = look(prefix, *at);
        if (is_odd(prefix, *at))
            return false;
        if (c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' || (c == '\n' && !one_line))
            ++*at;
        else if (!looks_like(prefix, *at, "//") && !looks_like(prefix, *at, "/*"))
            return true;
        else if (!pass_comment(prefix, at, one_line))
            return false;
    }
}

static bool pass(const struct prefix *prefix, size_t *at, const char *word)
{
    if (!looks_like(prefix, *at, word))
        return false;
    *at += strlen(word);
    return true;
}

/* Behind a name in quotes or angle brackets. */
static bool pass_name(const struct prefix *prefix, size_t *at, struct text *ret)
{
    char open = look(prefix, *at), close = open == '<' ? '>' : '"';
    size_t i = *at + 1;
    if (open != '<' && open != '"')
        return false;
    while (look(prefix, i) != close) {
        unsigned char c = (unsigned char)look(prefix, i);
        if (c < ' ' || c == 0x7f || is_odd(prefix, i) || looks_like(prefix, i, "//") || looks_like(prefix, i, "/*"))
            return false;
        i++;
    }
    *ret = (struct text){prefix->program.at + *at, i + 1 - *at};
    *at = i + 1;
    return ret->size > 2;
}

void prefix_begin(struct prefix *prefix, struct text program)
{
    *prefix = (struct prefix){.program = program};
    pass(prefix, &prefix->at, PREFIX_LINE_ONE);
}

bool prefix_next(struct prefix *prefix, struct text *ret)
{
    size_t at = prefix->at;
    struct text name;
    if (!pass_blanks(prefix, &at, false) || !pass(prefix, &at, "#") || !pass_blanks(prefix, &at, true) ||
        !pass(prefix, &at, "include") || !pass_blanks(prefix, &at, true) || !pass_name(prefix, &at, &name) ||
        !pass_blanks(prefix, &at, true))
        return false;
    if (at < prefix->program.size && !pass(prefix, &at, "\n"))
        return false; /* more on the line than the name */
    prefix->at = at;
    *ret = name;
    return true;
}
