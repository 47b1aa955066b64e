#include "daemon/resolve/sightings.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "daemon/resolve/defines.h"
#include "daemon/resolve/entry_names.h"
#include "daemon/resolve/zone.h"
#include "preamble/preamble.h"

/* What tells a program the name of the function that it is in, or where in its line something stands. Without NDEBUG an
 * assertion does. */
static const char *const telling_names[] = {
    "__func__",
    "__FUNCTION__",
    "__PRETTY_FUNCTION__",
    "__FUNCSIG__",
    "__FUNCDNAME__",
    "__builtin_FUNCTION",
    "__builtin_COLUMN",
    "__builtin_source_location",
    "source_location",
    "typeid",
    "NDEBUG",
};
#define N_TELLING_NAMES (sizeof telling_names / sizeof telling_names[0])

static const char not_a_declaration[] = "of the code uses it for more than to declare a __global__ function";

/* A scan of the code, or of a header. */
struct scan {
    struct candidates *candidates;
    struct text text;
    const char *what; /* "the code" */
    struct token before;
    size_t line;
    /* of a preprocessor line */
    size_t n_directive;   /* its tokens so far */
    bool include;         /* it is one of those */
    long directive_depth; /* of its round brackets */
    /* of the code alone */
    size_t depth;              /* of round and square brackets */
    bool global;               /* __global__ was said since the statement began */
    struct candidate *pending; /* a declarator, if the next token says so */
};

/* ---- preprocessor lines ---- */

/* Whether the operand of an #include is a header that comes with the fusion as bytes. */
static bool is_searched(const struct fusion *fusion, const char *at, const char *end)
{
    char close = *at == '<' ? '>' : '"';
    const char *name = at + 1, *stop = memchr(name, close, (size_t)(end - name));
    size_t size = stop ? (size_t)(stop - name) : 0;
    for (size_t i = 0; (*at == '<' || *at == '"') && stop && i < fusion->n_headers; i++) {
        const struct header *header = &fusion->headers[i];
        if (header->bytes.at && header->name.size == size && memcmp(header->name.at, name, size) == 0)
            return true;
    }
    return false;
}

static int end_directive(struct scan *scan, struct error *error)
{
    if (scan->directive_depth == 0)
        return 0;
    return candidates_keep_all(scan->candidates, error, "%s has a preprocessor line whose brackets are not in pairs",
                               scan->what);
}

static int look_at_directive(struct scan *scan, const struct token *token, struct error *error)
{
    static const char *const includes[] = {"include", "include_next", "import", "__include__"};
    if (token->begins) {
        if (end_directive(scan, error) < 0)
            return -1;
        scan->n_directive = 0;
        scan->directive_depth = 0;
        scan->include = false;
    }
    if (scan->n_directive == 1 && token_is(token, ':') && token_is(&scan->before, '%'))
        return 0; /* "%:" is one token, another spelling of "#" */
    size_t n = scan->n_directive++;
    if (token_is(token, '('))
        scan->directive_depth++;
    if (token_is(token, ')') && scan->directive_depth-- == 0)
        scan->directive_depth = LONG_MIN / 2; /* for good */
    for (size_t i = 0; n == 1 && i < sizeof includes / sizeof includes[0]; i++)
        scan->include = scan->include || token_names(token, text_of(includes[i]));
    if (!scan->include || n != 2 ||
        is_searched(scan->candidates->fusion, token->text.at, scan->text.at + scan->text.size))
        return 0;
    return candidates_keep_all(scan->candidates, error,
                               "%s includes what does not come with the fusion as bytes, and cannot be searched for "
                               "names",
                               scan->what);
}

/* ---- what code and headers have in common ---- */

/* "soft\<newline>max" is one identifier, and "/\<newline>/" begins a comment. */
static bool ends_within_word(struct text text, const struct token *splice)
{
    const char *before = splice->text.at, *behind = before + splice->text.size;
    if (before == text.at || behind == text.at + text.size)
        return false;
    return strchr("/#%:\\", before[-1]) || (is_word_byte(before[-1]) && is_word_byte(*behind));
}

static int look_at_any(struct scan *scan, const struct token *token, struct error *error)
{
    bool joined = scan->before.text.at && scan->before.text.at + scan->before.text.size == token->text.at;
    if (token->kind == TOKEN_SPLICE && ends_within_word(scan->text, token))
        return candidates_keep_all(scan->candidates, error, "%s has a line that ends within a word", scan->what);
    if (token_is(token, '\\'))
        return candidates_keep_all(scan->candidates, error,
                                   "%s has a backslash that is no part of a string and ends no line", scan->what);
    if (joined && token_is(token, '#') && token_is(&scan->before, '#'))
        return candidates_keep_all(scan->candidates, error, "%s has ##, which can make names out of parts", scan->what);
    for (size_t i = 0; i < N_TELLING_NAMES; i++)
        if (token_names(token, text_of(telling_names[i])))
            return candidates_keep_all(scan->candidates, error, "%s has %s, which can tell a kernel its name",
                                       scan->what, telling_names[i]);
    return token->directive ? look_at_directive(scan, token, error) : 0;
}

/* Bytes that nobody has without meaning mischief: ## in its other spelling, and our own names. */
static int look_for_bytes(struct candidates *candidates, struct text text, const char *what, struct error *error)
{
    if (text_has_bytes(text, "%:%:"))
        return candidates_keep_all(candidates, error, "%s has %%:%%:, which can make names out of parts", what);
    if (text_has_bytes(text, PLACEHOLDER_STEM))
        return candidates_keep_all(candidates, error, "%s has names that begin like placeholders", what);
    return 0;
}

/* ---- beside the code ---- */

/* A text in which no name may be at all. */
static int look_beside(struct candidates *candidates, struct text text, const char *what, struct error *error)
{
    char why[128];
    if (look_for_bytes(candidates, text, what, error) < 0)
        return -1;
    snprintf(why, sizeof why, "%s has it, too", what);
    for (size_t j = 0; j < candidates->n; j++)
        if (text_has_word(text, candidates->at[j].name) &&
            candidates_keep(candidates, &candidates->at[j], error, why, 0) < 0)
            return -1;
    return 0;
}

static int look_at_header(struct candidates *candidates, const struct header *header, struct error *error)
{
    char what[PRINTABLE + 16], name[PRINTABLE];
    struct text text = {(const char *)header->bytes.at, header->bytes.size};
    struct scan scan = {.candidates = candidates, .text = text, .what = what};
    struct tokens tokens = tokens_of(text);
    struct token token;
    if (!text.at)
        return candidates_keep_all(candidates, error,
                                   "a header that is given by its digest cannot be searched for names");
    snprintf(what, sizeof what, "header %s", text_printable(header->name, name));
    if (look_beside(candidates, text, what, error) < 0)
        return -1;
    while (!candidates->why_all.at && tokens_next(&tokens, &token)) {
        if (look_at_any(&scan, &token, error) < 0)
            return -1;
        scan.before = token;
    }
    return end_directive(&scan, error);
}

/* It becomes a preprocessor line of its own. */
static int look_at_define(struct candidates *candidates, const struct define *define, struct error *error)
{
    char what[PRINTABLE + 16], name[PRINTABLE];
    struct text value = define_value(define);
    struct scan scan = {.candidates = candidates, .text = value, .what = what};
    struct tokens tokens = tokens_of(value);
    struct token token;
    snprintf(what, sizeof what, "define %s", text_printable(define->name, name));
    if (look_beside(candidates, define->name, what, error) < 0 || look_beside(candidates, value, what, error) < 0)
        return -1;
    while (tokens_next(&tokens, &token)) {
        token.directive = true;
        if (look_at_any(&scan, &token, error) < 0)
            return -1;
        scan.before = token;
    }
    return end_directive(&scan, error);
}

/* The modules that the code uses stand in front of it. If a name is one that a module provides, it is in its text. */
static int look_at_preamble(struct candidates *candidates, struct error *error)
{
    static const char *const index_types[] = {"index_int32", "index_int64"};
    const struct preamble_module *modules = preamble_modules();
    uint8_t closure[PREAMBLE_MAX + 2];
    size_t n = preamble_closure(candidates->fusion->code.at, candidates->fusion->code.size, closure);
    for (size_t i = 0; i < 2; i++)
        closure[n++] = (uint8_t)preamble_find(index_types[i]);
    for (size_t i = 0; i < n; i++) {
        const struct preamble_module *module = &modules[closure[i]];
        for (size_t j = 0; j < candidates->n; j++)
            if (text_has_word((struct text){module->text, module->size}, candidates->at[j].name) &&
                candidates_keep(candidates, &candidates->at[j], error, "the preamble has it, too", 0) < 0)
                return -1;
    }
    return 0;
}

static int look_around(struct candidates *candidates, struct error *error)
{
    const struct fusion *fusion = candidates->fusion;
    for (size_t i = 0; i < fusion->n_headers; i++)
        if (look_at_header(candidates, &fusion->headers[i], error) < 0)
            return -1;
    for (size_t i = 0; fusion->compile && i < fusion->compile->n_defines; i++)
        if (look_at_define(candidates, &fusion->compile->defines[i], error) < 0)
            return -1;
    for (size_t i = 0; i < fusion->n_entries; i++)
        if (look_for_bytes(candidates, fusion->entries[i], "an entry", error) < 0)
            return -1;
    return fusion->structured || candidates->why_all.at ? 0 : look_at_preamble(candidates, error);
}

/* ---- the code ---- */

/* Whether a name may follow, as the declared function's: behind its type, an attribute, or a namespace. */
static bool may_precede(const struct token *before)
{
    return before->kind == TOKEN_IDENTIFIER || token_is(before, ')') || token_is(before, ']') ||
           token_is(before, ':') || token_is(before, '>');
}

static int look_at_name(struct scan *scan, const struct token *token, struct error *error)
{
    struct candidate *candidate = candidates_find(scan->candidates, token);
    if (!candidate)
        return 0;
    if (token->directive)
        return candidates_keep(scan->candidates, candidate, error, "of the code is a preprocessor line that uses it",
                               scan->line);
    if (scan->depth || !scan->global || !may_precede(&scan->before))
        return candidates_keep(scan->candidates, candidate, error, not_a_declaration, scan->line);
    scan->pending = candidate;
    candidate->declared++;
    return 0;
}

static int look_at_string(struct scan *scan, const struct token *token, struct error *error)
{
    struct candidates *candidates = scan->candidates;
    for (size_t j = 0; j < candidates->n; j++)
        if (text_has_word(token->text, candidates->at[j].name) &&
            candidates_keep(candidates, &candidates->at[j], error, "of the code has it in a string", scan->line) < 0)
            return -1;
    return 0;
}

/* Brackets, and where statements begin and end. */
static int look_at_other(struct scan *scan, const struct token *token, struct error *error)
{
    char c = *token->text.at;
    if (token->directive)
        return 0;
    if (c == '(' || c == '[')
        scan->depth++;
    if ((c == ')' || c == ']') && scan->depth-- == 0)
        return candidates_keep_all(scan->candidates, error, "the code's brackets are not in pairs");
    if (!scan->depth && (c == ';' || c == '{' || c == '}'))
        scan->global = false;
    return 0;
}

static int look_at(struct scan *scan, const struct token *token, struct error *error)
{
    if (scan->pending) {
        struct candidate *candidate = scan->pending;
        scan->pending = NULL;
        if (!token_is(token, '(') && !token_is(token, '<') &&
            candidates_keep(scan->candidates, candidate, error, not_a_declaration, scan->line) < 0)
            return -1;
    }
    switch (token->kind) {
    case TOKEN_IDENTIFIER:
        if (token_names(token, TEXT_OF("__global__")) && !token->directive)
            scan->global = true;
        return look_at_name(scan, token, error);
    case TOKEN_STRING:
        return look_at_string(scan, token, error);
    case TOKEN_OTHER:
        return look_at_other(scan, token, error);
    case TOKEN_SPLICE:
    case TOKEN_NUMBER:
        break;
    }
    return 0;
}

static size_t count_lines(const char *at, const char *end)
{
    size_t n = 0;
    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        n++;
    return n;
}

/* Words between tokens are words in comments. */
static void count_comments(struct candidates *candidates, const char *at, const char *end)
{
    for (size_t j = 0; j < candidates->n; j++) {
        struct candidate *candidate = &candidates->at[j];
        for (const char *word = at; (word = word_find(word, end, candidate->name, false)); word += candidate->name.size)
            candidate->comments++;
    }
}

static int look_at_code(struct candidates *candidates, struct error *error)
{
    struct text code = candidates->fusion->code;
    struct scan scan = {.candidates = candidates, .text = code, .what = "the code", .line = 1};
    struct tokens tokens = tokens_of(code);
    struct token token;
    const char *at = code.at, *end = code.at + code.size;
    if (look_for_bytes(candidates, code, scan.what, error) < 0)
        return -1;
    while (!candidates->why_all.at && tokens_next(&tokens, &token)) {
        count_comments(candidates, at, token.text.at);
        scan.line += count_lines(at, token.text.at);
        if (look_at_any(&scan, &token, error) < 0 || look_at(&scan, &token, error) < 0)
            return -1;
        scan.before = token;
        scan.line += count_lines(token.text.at, token.text.at + token.text.size);
        at = token.text.at + token.text.size;
    }
    count_comments(candidates, at, end);
    if (scan.pending && candidates_keep(candidates, scan.pending, error, not_a_declaration, scan.line) < 0)
        return -1;
    for (size_t j = 0; j < candidates->n; j++)
        if (candidates->at[j].declared == 0 &&
            candidates_keep(candidates, &candidates->at[j], error,
                            "the code declares no __global__ function of that name", 0) < 0)
            return -1;
    return end_directive(&scan, error);
}

int sightings_look(struct candidates *candidates, struct error *error)
{
    if (look_around(candidates, error) < 0)
        return -1;
    return candidates->why_all.at ? 0 : look_at_code(candidates, error);
}
