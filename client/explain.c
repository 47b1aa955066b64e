#include "client/explain.h"

#include <stdlib.h>
#include <string.h>

#include "client/compile.h"
#include "client/error.h"

/* A copy that stays when the connection's buffer is used again. */
static int copy(const struct explain_reply *reply, struct fusiond_explanation *ret, struct error *error)
{
    msgpack_sbuffer packed;
    int result = -1;
    msgpack_sbuffer_init(&packed);
    char *bytes = NULL;
    if (message_pack(&explain_reply_type, reply, &packed) == 0)
        bytes = msgpack_zone_malloc(ret->zone, packed.size);
    if (bytes) {
        memcpy(bytes, packed.data, packed.size);
        result =
            message_parse(&explain_reply_type, (const uint8_t *)bytes, packed.size, ret->zone, &ret->message, error);
    } else {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an explanation");
    }
    msgpack_sbuffer_destroy(&packed);
    return result;
}

static int print(struct fusiond_explanation *explanation, struct error *error)
{
    size_t size;
    FILE *out = open_memstream(&explanation->json, &size);
    if (out)
        message_print(&explain_reply_type, &explanation->message, out, 2);
    if (!out || fclose(out) != 0)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an explanation");
    return 0;
}

static int ask(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
               const struct compile_request *request, void *ret, struct error *error)
{
    struct fusiond_explanation *explanation = ret;
    struct explain_reply reply;
    (void)fusion;
    if (connection_ask(connection, METHOD_EXPLAIN, request, explanation->zone, &reply, error) < 0 ||
        copy(&reply, explanation, error) < 0 || print(explanation, error) < 0)
        return -1;
    key_to_hex(explanation->message.key, explanation->key);
    return 0;
}

int fusiond_explain(struct fusiond_connection *connection, struct fusiond_fusion *fusion,
                    const struct fusiond_compile_options *options, struct fusiond_explanation **ret,
                    struct fusiond_error *ret_error)
{
    static const struct fusiond_compile_options nothing;
    struct error error = {0};
    int result = -1;
    struct fusiond_explanation *explanation = calloc(1, sizeof *explanation);
    if (explanation && (explanation->zone = msgpack_zone_new(8192)))
        result = compile_ask(connection, fusion, options ? options : &nothing, ask, explanation, &error);
    else
        error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for an explanation");
    if (result < 0)
        fusiond_explanation_destroy(explanation);
    else
        *ret = explanation;
    return error_export(result, &error, ret_error);
}

void fusiond_explanation_destroy(struct fusiond_explanation *explanation)
{
    if (!explanation)
        return;
    if (explanation->zone)
        msgpack_zone_free(explanation->zone);
    free(explanation->json);
    free(explanation);
}

const char *fusiond_explanation_key(const struct fusiond_explanation *explanation)
{
    return explanation->key;
}

const char *fusiond_explanation_found(const struct fusiond_explanation *explanation)
{
    const char *word = tier_word((int)explanation->message.found);
    return word ? word : "";
}

const char *fusiond_explanation_json(const struct fusiond_explanation *explanation)
{
    return explanation->json;
}
