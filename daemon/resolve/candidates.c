#include "daemon/resolve/candidates.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/resolve/entry_names.h"
#include "daemon/resolve/identifiers.h"
#include "daemon/resolve/zone.h"

/* What means something to the language, and functions that a compiler or the device's runtime knows by name. With
 * another name in its place such a program would be another one. */
static const char *const taken_names[] = {
    "alignas",    "alignof",      "and",           "and_eq",
    "asm",        "assert",       "auto",          "bitand",
    "bitor",      "bool",         "break",         "case",
    "catch",      "char",         "char16_t",      "char32_t",
    "char8_t",    "class",        "co_await",      "co_return",
    "co_yield",   "compl",        "concept",       "const",
    "const_cast", "consteval",    "constexpr",     "constinit",
    "continue",   "decltype",     "default",       "defined",
    "delete",     "do",           "double",        "dynamic_cast",
    "else",       "enum",         "explicit",      "export",
    "extern",     "false",        "final",         "float",
    "for",        "free",         "friend",        "goto",
    "if",         "import",       "inline",        "int",
    "long",       "main",         "malloc",        "memcpy",
    "memmove",    "memset",       "module",        "mutable",
    "namespace",  "new",          "noexcept",      "not",
    "not_eq",     "nullptr",      "operator",      "or",
    "or_eq",      "override",     "printf",        "private",
    "protected",  "public",       "register",      "reinterpret_cast",
    "requires",   "return",       "short",         "signed",
    "sizeof",     "static",       "static_assert", "static_cast",
    "std",        "struct",       "switch",        "template",
    "this",       "thread_local", "throw",         "true",
    "try",        "typedef",      "typeid",        "typename",
    "typeof",     "union",        "unsigned",      "using",
    "virtual",    "void",         "volatile",      "vprintf",
    "wchar_t",    "while",        "xor",           "xor_eq",
};

/* ---- words ---- */

bool text_has_bytes(struct text text, const char *bytes)
{
    return text.size && memmem(text.at, text.size, bytes, strlen(bytes));
}

bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           (unsigned char)c >= 0x80;
}

const char *word_find(const char *at, const char *end, struct text word, bool mangled)
{
    const char *begin = at;
    if (word.size == 0)
        return NULL;
    for (; at < end && (at = memmem(at, (size_t)(end - at), word.at, word.size)); at++) {
        const char *behind = at + word.size;
        if (mangled && at > begin && at[-1] >= '0' && at[-1] <= '9')
            return at;
        if ((at == begin || !is_word_byte(at[-1])) && (behind == end || !is_word_byte(*behind)))
            return at;
    }
    return NULL;
}

bool text_has_word(struct text text, struct text word)
{
    return text.size && word_find(text.at, text.at + text.size, word, true);
}

/* ---- reasons ---- */

int candidates_keep_all(struct candidates *candidates, struct error *error, const char *format, ...)
{
    char why[256];
    va_list args;
    if (candidates->why_all.at)
        return 0;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return zone_format(candidates->zone, &candidates->why_all, error, "%s", why);
}

int candidates_keep(struct candidates *candidates, struct candidate *candidate, struct error *error, const char *why,
                    size_t line)
{
    char name[PRINTABLE];
    if (candidate->why.at)
        return 0;
    text_printable(candidate->name, name);
    return line ? zone_format(candidates->zone, &candidate->why, error, "%s keeps its name: line %zu %s", name, line,
                              why)
                : zone_format(candidates->zone, &candidate->why, error, "%s keeps its name: %s", name, why);
}

/* ---- collecting ---- */

static bool is_taken(struct text name)
{
    /* Reserved: the compiler's own. */
    if (name.size > 1 && name.at[0] == '_' && (name.at[1] == '_' || (name.at[1] >= 'A' && name.at[1] <= 'Z')))
        return true;
    for (size_t i = 0; i < sizeof taken_names / sizeof taken_names[0]; i++)
        if (text_is(name, taken_names[i]))
            return true;
    return false;
}

static struct candidate *find_name(const struct candidates *candidates, struct text name)
{
    for (size_t j = 0; j < candidates->n; j++) {
        struct text other = candidates->at[j].name;
        if (other.size == name.size && memcmp(other.at, name.at, name.size) == 0)
            return &candidates->at[j];
    }
    return NULL;
}

/* In all entries; other than as their own identifiers it may be in template arguments, or a namespace. */
static size_t count_words(const struct fusion *fusion, struct text name)
{
    size_t n = 0;
    for (size_t i = 0; i < fusion->n_entries; i++) {
        const char *at = fusion->entries[i].at, *end = at + fusion->entries[i].size;
        for (; (at = word_find(at, end, name, false)); at += name.size)
            n++;
    }
    return n;
}

static int check_name(struct candidates *candidates, struct candidate *candidate, struct error *error)
{
    const char *why = NULL;
    if (candidate->name.size > PLACEHOLDER_SIZE)
        why = "it is longer than 64 bytes";
    else if (!is_identifier(candidate->name) || is_taken(candidate->name))
        why = "it is a name of the language or of its runtime";
    else if (count_words(candidates->fusion, candidate->name) != candidate->entries)
        why = "an entry uses it for something else, too";
    return why ? candidates_keep(candidates, candidate, error, why, 0) : 0;
}

int candidates_collect(struct candidates *candidates, struct error *error)
{
    const struct fusion *fusion = candidates->fusion;
    candidates->at = zone_array(candidates->zone, fusion->n_entries, sizeof *candidates->at, error);
    if (!candidates->at)
        return -1;
    for (size_t i = 0; i < fusion->n_entries; i++) {
        struct text name = entry_identifier(fusion->entries[i]);
        struct candidate *candidate = find_name(candidates, name);
        if (!candidate) {
            candidate = &candidates->at[candidates->n++];
            candidate->name = name;
        }
        candidate->entries++;
        /* "fusiond::" comes in front of it, and the whole must be a name still. */
        if (fusion->entries[i].size - name.size + PLACEHOLDER_SIZE > LIMIT_NAME - 16 &&
            candidates_keep(candidates, candidate, error, "its entry is too long for a placeholder", 0) < 0)
            return -1;
    }
    for (size_t j = 0; j < candidates->n; j++)
        if (check_name(candidates, &candidates->at[j], error) < 0)
            return -1;
    return 0;
}

struct candidate *candidates_find(const struct candidates *candidates, const struct token *token)
{
    return token->kind == TOKEN_IDENTIFIER ? find_name(candidates, token->text) : NULL;
}
