#include "daemon/compile/program_files.h"

#include <sodium.h>
#include <string.h>

#include "preamble/host/host.h"
#include "preamble/preamble.h"

/* One of the daemon's texts. */
struct own_text {
    const char *name, *text;
    size_t size;
    const uint8_t *digest;
};

struct walk {
    struct own_text found[PROGRAM_FILES_MAX];
    size_t n;
};

static bool find(const char *name, size_t size, struct own_text *ret)
{
    const struct preamble_module *modules = preamble_modules();
    const struct host_text *texts = host_texts();
    struct text wanted = {name, size};
    for (size_t i = 0; i < preamble_count; i++) {
        if (!text_is(wanted, modules[i].include))
            continue;
        *ret = (struct own_text){modules[i].include, modules[i].text, modules[i].size, modules[i].digest};
        return true;
    }
    for (size_t i = 0; i < host_text_count; i++) {
        if (!text_is(wanted, texts[i].include))
            continue;
        *ret = (struct own_text){texts[i].include, texts[i].text, texts[i].size, texts[i].digest};
        return true;
    }
    return false;
}

static bool is_known(const struct walk *walk, const char *name)
{
    for (size_t i = 0; i < walk->n; i++)
        if (walk->found[i].name == name)
            return true;
    return false;
}

/* The name in a line such as `#include "fusiond/warp.cuh"`; NULL when it is another line. */
static const char *included(const char *line, size_t size, size_t *ret_size)
{
    static const char word[] = "include";
    const char *at = line, *end = line + size;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at++ != '#')
        return NULL;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if ((size_t)(end - at) < sizeof word || memcmp(at, word, sizeof word - 1) != 0)
        return NULL;
    at += sizeof word - 1;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || (*at != '"' && *at != '<'))
        return NULL;
    char closing = *at++ == '"' ? '"' : '>';
    const char *close = memchr(at, closing, (size_t)(end - at));
    *ret_size = close ? (size_t)(close - at) : 0;
    return close ? at : NULL;
}

static void look_at(struct walk *walk, struct text text)
{
    const char *line = text.at, *end = text.at + text.size;
    while (line && line < end && walk->n < PROGRAM_FILES_MAX) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        size_t size = (size_t)((feed ? feed : end) - line), name_size;
        const char *name = included(line, size, &name_size);
        struct own_text own;
        if (name && find(name, name_size, &own) && !is_known(walk, own.name))
            walk->found[walk->n++] = own;
        line = feed ? feed + 1 : end;
    }
}

static void walk_all(struct walk *walk, struct text program)
{
    walk->n = 0;
    look_at(walk, program);
    for (size_t i = 0; i < walk->n; i++)
        look_at(walk, (struct text){walk->found[i].text, walk->found[i].size});
}

size_t program_files(struct text program, struct source_file ret[PROGRAM_FILES_MAX])
{
    struct walk walk;
    walk_all(&walk, program);
    for (size_t i = 0; i < walk.n; i++)
        ret[i] =
            (struct source_file){.name = text_of(walk.found[i].name), .text = {walk.found[i].text, walk.found[i].size}};
    return walk.n;
}

void program_files_digest(struct text program, uint8_t ret[DIGEST_SIZE])
{
    struct walk walk;
    crypto_generichash_state state;
    walk_all(&walk, program);
    crypto_generichash_init(&state, NULL, 0, DIGEST_SIZE);
    for (size_t i = 0; i < walk.n; i++) {
        crypto_generichash_update(&state, (const unsigned char *)walk.found[i].name, strlen(walk.found[i].name) + 1);
        crypto_generichash_update(&state, walk.found[i].digest, DIGEST_SIZE);
    }
    crypto_generichash_final(&state, ret, DIGEST_SIZE);
}
