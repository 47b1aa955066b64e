#include "daemon/compile/title.h"

#include <stdio.h>

/* Hexadecimal digits of the key. */
#define SHORT_KEY 8
#define ROOM_BEHIND 64

struct text title_of(const struct fusion *fusion, const uint8_t key[KEY_SIZE], char ret[TITLE_SIZE])
{
    const struct fusion_ids *ids = fusion->ids;
    struct text first = ids ? fusion->scheduler : fusion->label;
    int shown = (int)(first.size < TITLE_SIZE - ROOM_BEHIND ? first.size : TITLE_SIZE - ROOM_BEHIND);
    char hex[KEY_HEX];
    ret[0] = '\0';
    if (ids) {
        snprintf(ret, TITLE_SIZE, "%.*s_f%u_c%u_r%u_g%u", first.at ? shown : 6, first.at ? first.at : "fusion",
                 (unsigned)ids->fusion, (unsigned)ids->concrete, (unsigned)ids->runtime, (unsigned)ids->group);
    } else if (first.at) {
        key_to_hex(key, hex);
        snprintf(ret, TITLE_SIZE, "%.*s_%.*s", shown, first.at, SHORT_KEY, hex);
    } else {
        return (struct text){0};
    }
    return text_of(ret);
}
