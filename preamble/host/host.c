#include "preamble/host/host.h"

#include <pthread.h>
#include <sodium.h>

extern struct host_text host_texts_embedded[];

static void digest_all(void)
{
    for (size_t i = 0; i < host_text_count; i++) {
        struct host_text *text = &host_texts_embedded[i];
        crypto_generichash(text->digest, sizeof text->digest, (const unsigned char *)text->text, text->size, NULL, 0);
    }
}

const struct host_text *host_texts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, digest_all);
    return host_texts_embedded;
}

#define HOST_COMPILE(argument) argument,
#define HOST_LINK(argument)
#define HOST_LIBRARY(argument)
const char *const host_compile_arguments[] = {
#include "preamble/host/arguments.def"
    NULL};
#undef HOST_COMPILE
#undef HOST_LINK
#undef HOST_LIBRARY

#define HOST_COMPILE(argument)
#define HOST_LINK(argument) argument,
#define HOST_LIBRARY(argument)
const char *const host_link_arguments[] = {
#include "preamble/host/arguments.def"
    NULL};
#undef HOST_LINK
#undef HOST_LIBRARY

#define HOST_LINK(argument)
#define HOST_LIBRARY(argument) argument,
const char *const host_link_libraries[] = {
#include "preamble/host/arguments.def"
    NULL};
#undef HOST_COMPILE
#undef HOST_LINK
#undef HOST_LIBRARY
