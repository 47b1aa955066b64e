#include "daemon/compile/walls.h"

#include <criterion/criterion.h>
#include <string.h>

Test(walls, F28_others_do_not_compile_where_nothing_is_shut_in)
{
    struct error error;
    static const enum sandbox good[] = {SANDBOX_FULL, SANDBOX_SECCOMP, sandbox_absent};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect_eq(walls_admit(good[i], 1001, 1000, &error), 0);
        cr_expect_eq(walls_admit(good[i], 1000, 1000, &error), 0);
    }
    cr_expect_eq(walls_admit(SANDBOX_NONE, 1000, 1000, &error), 0, "its own user is warned, not refused");
    cr_expect_eq(walls_admit(SANDBOX_NONE, 1001, 1000, &error), -1);
    cr_expect_eq(error.code, STATUS_FORBIDDEN);
    cr_expect(strstr(error.text, "uid 1000") && strstr(error.text, "uid 1001"), "%s", error.text);
    cr_expect_eq(walls_admit(SANDBOX_NONE, 0, 1000, &error), -1, "root is another user, too");
}
