#include "daemon/compile/shown_names.h"

#include <string.h>

void shown_names_add(struct shown_names *shown, const uint8_t key[KEY_SIZE])
{
    if (shown_names_have(shown, key))
        return;
    memcpy(shown->keys[shown->next], key, KEY_SIZE);
    shown->next = (shown->next + 1) % SHOWN_NAMES_MAX;
    if (shown->n < SHOWN_NAMES_MAX)
        shown->n++;
}

bool shown_names_have(const struct shown_names *shown, const uint8_t key[KEY_SIZE])
{
    for (size_t i = 0; i < shown->n; i++)
        if (memcmp(shown->keys[i], key, KEY_SIZE) == 0)
            return true;
    return false;
}
