/*
 * The embed step: reads the modules' texts and writes them, with all tables, as a C file.
 * A native program of the build: embed OUTPUT FILE.cuh…, a file per row of modules.def in any order.
 * It refuses an #include of an unknown or later module, a row without a file and a file without a row.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preamble/embed.h"

#define WORDS_MAX 4096 /* slots of the word table */

struct row {
    const char *name;
    const char *provides;
    char *text;
    size_t size;
    uint64_t needs;
    uint64_t closure;
};

static struct row rows[] = {
#define MODULE(name, provides) {#name, provides, NULL, 0, 0, 0},
#include "preamble/modules.def"
#undef MODULE
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(N_ROWS <= PREAMBLE_MAX, "a closure has a bit and a position for each module");

static const char index_prefix[] = "index_int";

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("preamble embed: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static int find_row(const char *name, size_t size)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == size && memcmp(rows[i].name, name, size) == 0)
            return (int)i;
    return -1;
}

static void read_text(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *end = strrchr(name, '.');
    int at = end && strcmp(end, ".cuh") == 0 ? find_row(name, (size_t)(end - name)) : -1;
    if (at < 0)
        die("%s: modules.def has no row for it", path);
    FILE *file = fopen(path, "rbe");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        die("%s: %s", path, strerror(errno));
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
        die("%s: cannot read %ld bytes", path, size);
    fclose(file);
    text[size] = '\0';
    if (strlen(text) != (size_t)size)
        die("%s: it has a NUL byte", path);
    if (rows[at].text)
        die("%s: the module is given twice", path);
    rows[at].text = text;
    rows[at].size = (size_t)size;
}

/* What the module includes. Only lines of the form #include "fusiond/NAME.cuh" are legal in a module. */
static void find_needs(size_t at)
{
    static const char prefix[] = "\"fusiond/";
    struct row *row = &rows[at];
    row->closure = UINT64_C(1) << at;
    for (const char *line = row->text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "#include", 8) != 0)
            continue;
        const char *name = line + 8 + strspn(line + 8, " ");
        size_t span = strcspn(name, "\n");
        const char *dot = memchr(name, '.', span);
        if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || !dot || strncmp(dot, ".cuh\"", 5) != 0)
            die("%s: a module includes other modules only, not %.*s", row->name, (int)span, name);
        name += sizeof(prefix) - 1;
        int need = find_row(name, (size_t)(dot - name));
        if (need < 0 || (size_t)need >= at)
            die("%s: the row of %.*s does not stand before it", row->name, (int)(dot - name), name);
        row->needs |= UINT64_C(1) << need;
        row->closure |= rows[need].closure;
    }
}

static void write_string(FILE *out, const char *text)
{
    fputs("    \"", out);
    for (const char *c = text; *c; c++) {
        if (*c == '\n')
            fputs(c[1] ? "\\n\"\n    \"" : "\\n", out);
        else if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127 || *c == '?')
            fprintf(out, "\\%03o", (unsigned char)*c);
        else
            fputc(*c, out);
    }
    fputs("\"", out);
}

static void write_texts(FILE *out)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        fprintf(out, "static const char text_%s[] =\n", rows[i].name);
        write_string(out, rows[i].text);
        fprintf(out, ";\nstatic const char *const needs_%s[] = {", rows[i].name);
        for (size_t k = 0; k < N_ROWS; k++)
            if (rows[i].needs >> k & 1)
                fprintf(out, "\"%s\", ", rows[k].name);
        fprintf(out, "NULL};\nstatic const char *const provides_%s[] = {\n", rows[i].name);
        for (const char *word = rows[i].provides; *word; word += strspn(word, " ")) {
            size_t span = strcspn(word, " ");
            fprintf(out, "    \"%.*s\",\n", (int)span, word);
            word += span;
        }
        fputs("    NULL,\n};\n\n", out);
    }
    fputs("struct preamble_module preamble_embedded[] = {\n", out);
    for (size_t i = 0; i < N_ROWS; i++)
        fprintf(out,
                "    {.name = \"%s\", .include = \"fusiond/%s.cuh\", .text = text_%s, .size = %zu,\n"
                "     .provides = provides_%s, .needs = needs_%s},\n",
                rows[i].name, rows[i].name, rows[i].name, rows[i].size, rows[i].name, rows[i].name);
    fprintf(out, "};\nconst size_t preamble_count = %zu;\n\n", N_ROWS);
}

static void write_closures(FILE *out)
{
    uint64_t index_modules = 0;
    fputs("const uint64_t preamble_closures[] = {\n", out);
    for (size_t i = 0; i < N_ROWS; i++) {
        fprintf(out, "    UINT64_C(0x%llx), /* %s */\n", (unsigned long long)rows[i].closure, rows[i].name);
        if (strncmp(rows[i].name, index_prefix, sizeof(index_prefix) - 1) == 0)
            index_modules |= UINT64_C(1) << i;
    }
    fprintf(out, "};\nconst uint64_t preamble_index_modules = UINT64_C(0x%llx);\n\n",
            (unsigned long long)index_modules);
}

static struct preamble_word words[WORDS_MAX];

static size_t add_word(size_t n, const char *text, size_t size, uint64_t modules)
{
    for (size_t i = 0; i < n; i++) {
        if (words[i].size == size && memcmp(words[i].text, text, size) == 0) {
            words[i].modules |= modules;
            return n;
        }
    }
    if (n == WORDS_MAX / 2)
        die("more than %d identifiers: raise WORDS_MAX", WORDS_MAX / 2);
    uint32_t hash = PREAMBLE_HASH_START;
    for (size_t i = 0; i < size; i++)
        hash = preamble_hash(hash, (unsigned char)text[i]);
    words[n] = (struct preamble_word){text, (uint32_t)size, hash, modules};
    return n + 1;
}

static void write_words(FILE *out)
{
    size_t n = 0;
    for (size_t i = 0; i < N_ROWS; i++) {
        for (const char *word = rows[i].provides; *word; word += strspn(word, " ")) {
            size_t span = strcspn(word, " ");
            n = add_word(n, word, span, UINT64_C(1) << i);
            word += span;
        }
    }
    uint32_t slots = 16;
    while (slots < 4 * n) /* at most a quarter full: a foreign identifier rarely meets a taken slot */
        slots *= 2;
    const struct preamble_word **table = calloc(slots, sizeof(*table));
    if (!table)
        die("out of memory");
    for (size_t i = 0; i < n; i++) {
        uint32_t at = words[i].hash & (slots - 1);
        while (table[at])
            at = (at + 1) & (slots - 1);
        table[at] = &words[i];
    }
    fprintf(out, "const uint32_t preamble_words_mask = %u;\nconst struct preamble_word preamble_words[] = {\n",
            slots - 1);
    for (uint32_t i = 0; i < slots; i++) {
        if (table[i])
            fprintf(out, "    [%u] = {\"%.*s\", %u, %uu, UINT64_C(0x%llx)},\n", i, (int)table[i]->size, table[i]->text,
                    table[i]->size, table[i]->hash, (unsigned long long)table[i]->modules);
    }
    fprintf(out, "    [%u] = {NULL, 0, 0, 0},\n};\n", slots);
    free(table);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: embed OUTPUT FILE.cuh...");
    for (int i = 2; i < argc; i++)
        read_text(argv[i]);
    for (size_t i = 0; i < N_ROWS; i++) {
        if (!rows[i].text)
            die("%s: no file is given for this row of modules.def", rows[i].name);
        find_needs(i);
    }
    FILE *out = fopen(argv[1], "we");
    if (!out)
        die("%s: %s", argv[1], strerror(errno));
    fputs("/* Written by preamble/embed.c from preamble/modules.def and the modules' texts. */\n"
          "#include \"preamble/embed.h\"\n\n",
          out);
    write_texts(out);
    write_closures(out);
    write_words(out);
    if (ferror(out) || fclose(out) != 0)
        die("%s: %s", argv[1], strerror(errno));
    for (size_t i = 0; i < N_ROWS; i++)
        free(rows[i].text);
    return 0;
}
