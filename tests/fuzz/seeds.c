/* Writes the seeds of frame_message into a folder: one input per message type and form, and a dictionary of the words
 * that the tables know. The two inputs that are large go into a folder of their own: as seeds they would slow down all
 * that is made from them.   seeds FOLDER LARGE-FOLDER DICTIONARY */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/envelope.h"
#include "tests/unit/proto/fill.h"

static const char *folder;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* One input: the byte that says how it arrives, and the bytes. */
static void write_seed(const char *name, int index, int how, const char *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d", folder, name, index);
    FILE *file = fopen(path, "we");
    if (!file || fputc(how, file) == EOF || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        fail(path);
}

/* A frame as the only one of a stream, and as a payload that comes in one piece. */
static void write_frame(const char *name, int index, const msgpack_sbuffer *out)
{
    write_seed(name, index, 1 | 127 << 1, out->data, out->size);
    write_seed(name, index + 1, 127 << 1, out->data + LIMIT_FRAME_HEADER, out->size - LIMIT_FRAME_HEADER);
}

static void check(int got)
{
    if (got < 0) {
        fputs("seeds: no memory\n", stderr);
        exit(1);
    }
}

static void write_methods(msgpack_sbuffer *out, msgpack_zone *zone)
{
    for (int i = 1; i < METHOD_COUNT; i++) {
        for (int reply = 0; reply <= 1; reply++) {
            const struct message_type *type = reply ? methods[i].reply : methods[i].request;
            void *message = msgpack_zone_malloc(zone, type->size + 1);
            fill_message(type, message, zone, (unsigned)i);
            check(reply ? envelope_write_reply(out, (uint32_t)i, (enum method)i, message)
                        : envelope_write_request(out, (uint32_t)i, (enum method)i, message));
            write_frame(type->name, 0, out);
            msgpack_sbuffer_clear(out);
        }
    }
}

static void write_messages(msgpack_sbuffer *out, msgpack_zone *zone)
{
    for (int i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        void *message = msgpack_zone_malloc(zone, type->size + 1);
        fill_message(type, message, zone, (unsigned)i);
        check(envelope_write_message(out, type, message));
        write_frame(type->name, 2, out);
        msgpack_sbuffer_clear(out);
    }
    struct failure failure;
    fill_message(&failure_type, &failure, zone, 0);
    check(envelope_write_failure(out, 7, &failure));
    write_frame("failure", 4, out);
    msgpack_sbuffer_clear(out);
}

/* Large enough for a buffer that grows and shrinks, and for the limit of values. */
static void write_large(msgpack_sbuffer *out)
{
    static uint8_t bytes[40000];
    static char values[LIMIT_VALUES + 5] = "\xdd\x00\x02\x00\x00";
    struct blob_put_request put = {.bytes = {bytes, sizeof bytes}};
    static struct ping_request ping;
    check(envelope_write_request(out, 1, METHOD_PING, &ping)); /* raises the limit, as hello does */
    check(envelope_write_request(out, 2, METHOD_BLOB_PUT, &put));
    check(envelope_write_request(out, 3, METHOD_PING, &ping));
    write_seed("frame", 0, 1 | 127 << 1, out->data, out->size);
    write_seed("values", 0, 127 << 1, values, sizeof values);
    msgpack_sbuffer_clear(out);
}

/* Strings that no mutation of bytes finds: as they are packed, so that they stand where a value may stand. */
static void write_dictionary(const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file)
        fail(path);
    for (int i = 1; i < METHOD_COUNT; i++)
        fprintf(file, "\"\\x%02zx%s\"\n", 0xa0 | strlen(methods[i].name), methods[i].name);
    for (size_t i = 0; message_types[i]; i++) {
        const struct message_type *type = message_types[i];
        fprintf(file, "\"\\x%02zx%s\"\n", 0xa0 | strlen(type->name), type->name);
        for (size_t j = 0; j < type->n_fields; j++) {
            const char *name = type->fields[j].name;
            if (strlen(name) < 32)
                fprintf(file, "\"\\x%02zx%s\"\n", 0xa0 | strlen(name), name);
            for (const struct word *word = type->fields[j].words; word && word->word; word++)
                fprintf(file, "\"\\x%02zx%s\"\n", 0xa0 | strlen(word->word), word->word);
        }
    }
    if (fclose(file) != 0)
        fail(path);
}

int main(int argc, char **argv)
{
    msgpack_zone zone;
    msgpack_sbuffer out;
    if (argc != 4) {
        fputs("usage: seeds FOLDER LARGE-FOLDER DICTIONARY\n", stderr);
        return 2;
    }
    folder = argv[1];
    mkdir(folder, 0755);
    msgpack_zone_init(&zone, 4096);
    msgpack_sbuffer_init(&out);
    write_methods(&out, &zone);
    write_messages(&out, &zone);
    write_dictionary(argv[3]);
    folder = argv[2];
    mkdir(folder, 0755);
    write_large(&out);
    msgpack_sbuffer_destroy(&out);
    msgpack_zone_destroy(&zone);
    return 0;
}
