#include "daemon/compile/title.h"

#include <criterion/criterion.h>
#include <string.h>

static uint8_t key[KEY_SIZE] = {0x1a, 0x2b, 0x3c, 0x4d, 0x5e};
static char room[TITLE_SIZE];

Test(title, B7_1_ids_or_label_and_key)
{
    struct fusion_ids ids = {.fusion = 3, .concrete = 1, .group = 4294967295u};
    struct fusion fusion = {.scheduler = TEXT_OF("reduction"), .label = TEXT_OF("softmax"), .ids = &ids};
    cr_expect_str_eq(title_of(&fusion, key, room).at, "reduction_f3_c1_r0_g4294967295");
    fusion.scheduler = (struct text){0};
    cr_expect_str_eq(title_of(&fusion, key, room).at, "fusion_f3_c1_r0_g4294967295");
    fusion.ids = NULL;
    cr_expect_str_eq(title_of(&fusion, key, room).at, "softmax_1a2b3c4d");
    fusion.label = (struct text){0};
    cr_expect_null(title_of(&fusion, key, room).at);
    cr_expect_str_eq(room, "");
}

Test(title, B7_1_a_long_label_is_cut)
{
    char label[LIMIT_NAME + 1];
    struct fusion fusion = {.label = {label, LIMIT_NAME}};
    memset(label, 'x', LIMIT_NAME);
    label[LIMIT_NAME] = '\0';
    struct text title = title_of(&fusion, key, room);
    cr_expect_leq(title.size, LIMIT_NAME);
    cr_expect_str_eq(title.at + title.size - 10, "x_1a2b3c4d");
}
