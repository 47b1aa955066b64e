#include "daemon/resolve/names.h"

#include <string.h>

#include "daemon/resolve/identifiers.h"

/* Legal only between template brackets. */
static const char argument_characters[] = " ,()[]&*+-.!~%'|^=";

#define NESTING 64

static bool in_identifier(char c)
{
    return is_identifier((struct text){&c, 1}) || (c >= '0' && c <= '9');
}

/* Follow one bracket. Inside ( and [ the angle brackets are comparisons. */
static bool follow_bracket(char c, char stack[NESTING], size_t *depth)
{
    char top = *depth ? stack[*depth - 1] : 0;
    if ((c == '<' || c == '>') && (top == '(' || top == '['))
        return true;
    if (c == '<' || c == '(' || c == '[') {
        if (*depth == NESTING)
            return false;
        stack[(*depth)++] = c;
        return true;
    }
    if (top != (c == '>' ? '<' : c == ')' ? '(' : '['))
        return false;
    (*depth)--;
    return true;
}

/* The name without its template arguments: identifiers joined by "::". */
static bool is_path(struct text path)
{
    const char *end = path.at + path.size;
    for (const char *at = path.at;; at += 2) {
        const char *stop = memmem(at, (size_t)(end - at), "::", 2);
        if (!is_identifier((struct text){at, (size_t)((stop ? stop : end) - at)}))
            return false;
        if (!stop)
            return true;
        at = stop;
    }
}

const char *entry_fault(struct text entry, char scratch[64])
{
    char stack[NESTING], path[LIMIT_NAME];
    size_t depth = 0, path_size = 0;
    if (entry.size == 0)
        return "is empty";
    if (entry.size > LIMIT_NAME)
        return "is longer than 512 bytes";
    for (size_t i = 0; i < entry.size; i++) {
        char c = entry.at[i];
        bool bracket = c != 0 && strchr("<>()[]", c) != NULL;
        bool argument = c != 0 && strchr(argument_characters, c) != NULL;
        if (!in_identifier(c) && c != ':' && !bracket && !argument) {
            snprintf(scratch, 64, "holds the character 0x%02x", (unsigned char)c);
            return scratch;
        }
        if (depth == 0 && c != '<' && (bracket || argument)) {
            snprintf(scratch, 64, "holds '%c' outside of template brackets", c);
            return scratch;
        }
        if (depth == 0 && c != '<') {
            /* "f<1>g" is no name; "f<1>::g" is. */
            if (i && entry.at[i - 1] == '>' && c != ':')
                return "goes on behind its template brackets";
            path[path_size++] = c;
        }
        if (bracket && !follow_bracket(c, stack, &depth))
            return "has unbalanced brackets";
    }
    if (depth)
        return "has unbalanced brackets";
    if (!is_path((struct text){path, path_size}))
        return "is not identifiers joined by ::";
    return NULL;
}

const char *header_fault(struct text name)
{
    if (name.size == 0)
        return "is empty";
    if (name.at[0] == '/')
        return "is absolute";
    for (size_t i = 0; i < name.size; i++)
        if (name.at[i] < ' ' || name.at[i] > '~' || strchr("\\\"<>", name.at[i]))
            return "holds a backslash, a quote, an angle bracket or a byte that is not printable ASCII";

    const char *end = name.at + name.size;
    for (const char *at = name.at; at <= end;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        size_t size = (size_t)((slash ? slash : end) - at);
        if (size == 0)
            return "has an empty part";
        if (size <= 2 && memcmp(at, "..", size) == 0)
            return "has a part \".\" or \"..\"";
        at += size + 1;
    }
    if (name.size >= 8 && memcmp(name.at, "fusiond/", 8) == 0)
        return "is below fusiond/, where the preamble is";
    if (text_is(name, "fusion.cu"))
        return "is the name of the fusion's own code";
    return NULL;
}
