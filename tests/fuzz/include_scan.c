/* Any bytes as a text to be scanned for includes: what is found lies in order within it, and lines are counted right.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/include_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static unsigned lines_before(const char *text, size_t at)
{
    unsigned n = 1;
    for (size_t i = 0; i < at; i++)
        n += text[i] == '\n';
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct include_sites sites;
    size_t done = 0;
    /* A copy of exactly that size: reading beyond it is seen. */
    char *text = malloc(size + !size);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    if (include_scan(text, size, &sites) == 0) {
        for (size_t i = 0; i < sites.n; i++) {
            const struct include_site *site = &sites.at[i];
            size_t name = strnlen(site->name, sizeof site->name);
            check(site->from >= done && site->from < site->to && site->to <= size);
            check(name > 0 && name <= INCLUDE_NAME && name + 2 <= site->to - site->from);
            check(text[site->to - 1] == (site->angled ? '>' : '"'));
            check(site->line >= lines_before(text, site->from) && site->line <= lines_before(text, site->to));
            done = site->to;
        }
    }
    include_sites_finish(&sites);
    free(text);
    return 0;
}
