#include "client/list.h"

#include <stdlib.h>
#include <string.h>

#include "client/connection.h"
#include "client/error.h"

static int append_page(struct fusiond_kernel_list *list, const struct kernel_list_reply *page, struct error *error)
{
    if (page->n_kernels > list->capacity - list->n) {
        size_t capacity = 2 * (list->n + page->n_kernels);
        struct list_row *rows = reallocarray(list->rows, capacity, sizeof *rows);
        if (!rows)
            return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu kernels", capacity);
        list->rows = rows;
        list->capacity = capacity;
    }
    for (size_t i = 0; i < page->n_kernels; i++) {
        struct list_row *row = &list->rows[list->n++];
        row->summary = page->kernels[i];
        key_to_hex(row->summary.key, row->key);
    }
    return 0;
}

static int fetch_pages(struct fusiond_connection *connection, const struct fusiond_list_filter *filter,
                       struct fusiond_kernel_list *list, struct error *error)
{
    struct kernel_list_request request = {
        .prefix = text_of(filter->prefix),
        .label = text_of(filter->label),
        .target = text_of(filter->target),
        .has_limit = true,
    };
    struct kernel_list_reply page;
    do {
        size_t left = filter->limit ? filter->limit - list->n : LIMIT_LIST;
        request.limit = left < LIMIT_LIST ? left : LIMIT_LIST;
        if (connection_ask(connection, METHOD_KERNEL_LIST, &request, list->zone, &page, error) < 0 ||
            append_page(list, &page, error) < 0)
            return -1;
        if (page.n_kernels > 0) {
            memcpy(request.after, page.kernels[page.n_kernels - 1].key, DIGEST_SIZE);
            request.has_after = true;
        }
    } while (page.more && page.n_kernels > 0 && (filter->limit == 0 || list->n < filter->limit));
    return 0;
}

int fusiond_kernel_list(struct fusiond_connection *connection, const struct fusiond_list_filter *filter,
                        struct fusiond_kernel_list **ret, struct fusiond_error *ret_error)
{
    static const struct fusiond_list_filter everything;
    struct error error = {0};
    int result;
    struct fusiond_kernel_list *list = calloc(1, sizeof *list);
    if (!list || !(list->zone = msgpack_zone_new(16384)))
        result = error_set(&error, STATUS_OUT_OF_MEMORY, "no memory for a list");
    else
        result = fetch_pages(connection, filter ? filter : &everything, list, &error);
    if (result < 0)
        fusiond_kernel_list_destroy(list);
    else
        *ret = list;
    return error_export(result, &error, ret_error);
}

void fusiond_kernel_list_destroy(struct fusiond_kernel_list *list)
{
    if (!list)
        return;
    if (list->zone)
        msgpack_zone_free(list->zone);
    free(list->rows);
    free(list);
}

size_t fusiond_kernel_list_count(const struct fusiond_kernel_list *list)
{
    return list->n;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

struct fusiond_summary fusiond_kernel_list_at(const struct fusiond_kernel_list *list, size_t index)
{
    const struct list_row *row = &list->rows[index];
    const struct kernel_summary *summary = &row->summary;
    return (struct fusiond_summary){
        .key = row->key,
        .label = or_empty(summary->label.at),
        .target = or_empty(summary->target.at),
        .entry = or_empty(summary->entry.at),
        .index_type = or_empty(index_type_word((int)summary->index_type)),
        .max_registers = (unsigned)summary->max_registers,
        .image_size = summary->image_size,
        .created_unix_s = summary->created_unix_s,
        .last_used_unix_s = summary->last_used_unix_s,
        .compile_ns = summary->compile_ns,
    };
}
