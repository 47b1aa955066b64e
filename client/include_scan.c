#include "client/include_scan.h"

#include <stdlib.h>
#include <string.h>

struct scanner {
    const char *text;
    size_t at, size;
    unsigned line, depth;
    struct include_sites *sites;
    bool failed;
};

/* ---- characters, line splices aside ---- */

static size_t splice(const struct scanner *scanner)
{
    const char *at = scanner->text + scanner->at;
    size_t left = scanner->size - scanner->at;
    if (left >= 2 && at[0] == '\\' && at[1] == '\n')
        return 2;
    return left >= 3 && at[0] == '\\' && at[1] == '\r' && at[2] == '\n' ? 3 : 0;
}

/* The next character, -1 at the end. What is spliced is skipped. */
static int peek(struct scanner *scanner)
{
    for (size_t n; (n = splice(scanner)) > 0; scanner->line++)
        scanner->at += n;
    return scanner->at < scanner->size ? (unsigned char)scanner->text[scanner->at] : -1;
}

static void step(struct scanner *scanner)
{
    if (scanner->text[scanner->at] == '\n')
        scanner->line++;
    scanner->at++;
}

/* Whether the next two are these. */
static bool sees(struct scanner *scanner, char first, char second)
{
    if (peek(scanner) != first)
        return false;
    struct scanner ahead = *scanner;
    step(&ahead);
    return peek(&ahead) == second;
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c >= 0x80;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* ---- what is skipped ---- */

static bool skip_comment(struct scanner *scanner)
{
    int c;
    if (sees(scanner, '/', '/')) {
        while ((c = peek(scanner)) >= 0 && c != '\n')
            step(scanner);
        return true;
    }
    if (!sees(scanner, '/', '*'))
        return false;
    step(scanner);
    peek(scanner);
    step(scanner);
    while (peek(scanner) >= 0 && !sees(scanner, '*', '/'))
        step(scanner);
    for (int i = 0; i < 2 && peek(scanner) >= 0; i++)
        step(scanner);
    return true;
}

/* Within a line. */
static void skip_blanks(struct scanner *scanner)
{
    for (int c; (c = peek(scanner)) >= 0;) {
        if (c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r')
            step(scanner);
        else if (!skip_comment(scanner))
            return;
    }
}

/* A string or a character, to its quote or the end of the line. */
static void skip_literal(struct scanner *scanner)
{
    int quote = peek(scanner), c;
    step(scanner);
    while ((c = peek(scanner)) >= 0 && c != '\n') {
        step(scanner);
        if (c == quote)
            return;
        if (c == '\\' && (c = peek(scanner)) >= 0 && c != '\n')
            step(scanner);
    }
}

/* R"delimiter( … )delimiter": here nothing is spliced. At the quote. */
static void skip_raw(struct scanner *scanner)
{
    const char *text = scanner->text;
    size_t begin = scanner->at + 1, open = begin;
    while (open < scanner->size && open - begin <= 16 && text[open] != '(' && text[open] != '\n' && text[open] != '"')
        open++;
    if (open == scanner->size || text[open] != '(') {
        skip_literal(scanner);
        return;
    }
    size_t n = open - begin;
    for (size_t at = open; at < scanner->size; at++) {
        if (text[at] == '\n')
            scanner->line++;
        if (text[at] == ')' && scanner->size - at > n + 1 && memcmp(text + at + 1, text + begin, n) == 0 &&
            text[at + 1 + n] == '"') {
            scanner->at = at + n + 2;
            return;
        }
    }
    scanner->at = scanner->size;
}

/* A number with its letters and separators: 1'000. */
static void skip_number(struct scanner *scanner)
{
    for (int c; (c = peek(scanner)) >= 0; step(scanner)) {
        if (is_letter(c) || is_digit(c) || c == '.')
            continue;
        struct scanner ahead = *scanner;
        step(&ahead);
        if (c != '\'' || (!is_letter(peek(&ahead)) && !is_digit(peek(&ahead))))
            return;
    }
}

/* The letters of a word that fit. */
static void read_word(struct scanner *scanner, char ret[32])
{
    size_t size = 0;
    for (int c; (c = peek(scanner)) >= 0 && (is_letter(c) || is_digit(c)); step(scanner))
        if (size < 31)
            ret[size++] = (char)c;
    ret[size] = '\0';
}

/* ---- sites ---- */

static void add(struct scanner *scanner, const struct include_site *site)
{
    struct include_sites *sites = scanner->sites;
    if (sites->n == sites->room) {
        size_t room = sites->room ? 2 * sites->room : 16;
        struct include_site *at = reallocarray(sites->at, room, sizeof *at);
        if (!at) {
            scanner->failed = true;
            return;
        }
        sites->at = at;
        sites->room = room;
    }
    sites->at[sites->n++] = *site;
}

/* A name in quotes or angle brackets; `from` is where what would be replaced begins. False when there is none. */
static bool take_name(struct scanner *scanner, enum include_kind kind, size_t from, struct include_site *ret)
{
    int c, open = peek(scanner);
    size_t size = 0;
    if (open != '"' && open != '<')
        return false;
    *ret = (struct include_site){.kind = kind, .angled = open == '<', .line = scanner->line, .depth = scanner->depth};
    ret->from = kind == INCLUDE_NEXT || kind == INCLUDE_HAS_NEXT ? from : scanner->at;
    step(scanner);
    while ((c = peek(scanner)) >= 0 && c != '\n' && c != (open == '<' ? '>' : '"')) {
        if (size < INCLUDE_NAME)
            ret->name[size] = (char)c;
        size++;
        step(scanner);
    }
    if (c != (open == '<' ? '>' : '"'))
        return false;
    step(scanner);
    ret->to = scanner->at;
    return size > 0 && size <= INCLUDE_NAME && !memchr(ret->name, '\0', size);
}

/* The rest of an #if's line: questions for files. */
static void scan_condition(struct scanner *scanner)
{
    for (int c; skip_blanks(scanner), (c = peek(scanner)) >= 0 && c != '\n';) {
        char word[32];
        size_t from = scanner->at;
        struct include_site site;
        if (c == '"' || c == '\'') {
            skip_literal(scanner);
        } else if (is_digit(c)) {
            skip_number(scanner);
        } else if (is_letter(c)) {
            read_word(scanner, word);
            bool next = strcmp(word, "__has_include_next") == 0;
            if (!next && strcmp(word, "__has_include") != 0)
                continue;
            skip_blanks(scanner);
            if (peek(scanner) != '(')
                continue;
            step(scanner);
            skip_blanks(scanner);
            if (take_name(scanner, next ? INCLUDE_HAS_NEXT : INCLUDE_HAS, from, &site))
                add(scanner, &site);
        } else {
            step(scanner);
        }
    }
}

/* A definition that is the name of a file and nothing else. */
static void scan_definition(struct scanner *scanner)
{
    char word[32];
    struct include_site site;
    read_word(scanner, word);
    if (peek(scanner) == '(')
        return;
    skip_blanks(scanner);
    struct scanner ahead = *scanner;
    if (!take_name(&ahead, INCLUDE_MACRO, 0, &site))
        return;
    skip_blanks(&ahead);
    if (peek(&ahead) >= 0 && peek(&ahead) != '\n')
        return;
    *scanner = ahead;
    add(scanner, &site);
}

/* Behind the # of a line. */
static void scan_directive(struct scanner *scanner)
{
    char word[32];
    struct include_site site;
    skip_blanks(scanner);
    size_t from = scanner->at;
    read_word(scanner, word);
    skip_blanks(scanner);
    bool next = strcmp(word, "include_next") == 0;
    if (next || strcmp(word, "include") == 0 || strcmp(word, "import") == 0) {
        if (take_name(scanner, next ? INCLUDE_NEXT : INCLUDE_PLAIN, from, &site))
            add(scanner, &site);
    } else if (strcmp(word, "define") == 0) {
        scan_definition(scanner);
    } else if (strcmp(word, "if") == 0) {
        scanner->depth++;
        scan_condition(scanner);
    } else if (strcmp(word, "ifdef") == 0 || strcmp(word, "ifndef") == 0) {
        scanner->depth++;
    } else if (strcmp(word, "elif") == 0) {
        scan_condition(scanner);
    } else if (strcmp(word, "endif") == 0 && scanner->depth > 0) {
        scanner->depth--;
    } else if (strcmp(word, "error") == 0 || strcmp(word, "warning") == 0) {
        /* Prose, with apostrophes. */
        for (int c; (c = peek(scanner)) >= 0 && c != '\n';)
            step(scanner);
    }
}

static void scan_word(struct scanner *scanner)
{
    static const char *const prefixes[] = {"R", "LR", "uR", "UR", "u8R"};
    char word[32];
    read_word(scanner, word);
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (peek(scanner) == '"' && strcmp(word, prefixes[i]) == 0) {
            skip_raw(scanner);
            return;
        }
    }
}

int include_scan(const char *text, size_t size, struct include_sites *ret)
{
    struct scanner scanner = {.text = text, .size = size, .line = 1, .sites = ret};
    bool line_begins = true;
    *ret = (struct include_sites){0};
    for (int c; !scanner.failed && (skip_blanks(&scanner), c = peek(&scanner)) >= 0;) {
        bool is_directive = line_begins && (c == '#' || sees(&scanner, '%', ':'));
        line_begins = c == '\n';
        if (is_directive) {
            step(&scanner);
            if (c == '%' && peek(&scanner) == ':')
                step(&scanner);
            scan_directive(&scanner);
        } else if (c == '"' || c == '\'') {
            skip_literal(&scanner);
        } else if (is_digit(c)) {
            skip_number(&scanner);
        } else if (is_letter(c)) {
            scan_word(&scanner);
        } else {
            step(&scanner);
        }
    }
    return scanner.failed ? -1 : 0;
}

void include_sites_finish(struct include_sites *sites)
{
    free(sites->at);
    *sites = (struct include_sites){0};
}
