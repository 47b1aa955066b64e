#include "daemon/devices/restarts.h"

#include <criterion/criterion.h>

static const struct device_id gpu = {DEVICE_KIND_CUDA, 0, "GPU-a"}, moved = {DEVICE_KIND_CUDA, 0, "GPU-b"},
                              host = {DEVICE_KIND_HOST, 0, ""};

Test(restarts, every_failure_makes_the_pause_longer)
{
    static const uint64_t pauses[] = {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000, 5000};
    struct restarts restarts;
    uint64_t now = 1000000;
    restarts_init(&restarts);
    cr_assert_null(restarts_paused(&restarts, &gpu, now));
    for (unsigned i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        restarts_note_failure(&restarts, &gpu, now, "it was told so");
        const struct trouble *trouble = restarts_paused(&restarts, &gpu, now + pauses[i] - 1);
        cr_assert_not_null(trouble, "%u", i);
        cr_assert_eq(trouble->failed, i + 1);
        cr_assert_eq(trouble->until_ms, now + pauses[i]);
        cr_assert_str_eq(trouble->reason, "it was told so");
        now += pauses[i];
        cr_assert_null(restarts_paused(&restarts, &gpu, now));
    }
    restarts_finish(&restarts);
}

Test(restarts, each_device_has_its_own)
{
    struct restarts restarts;
    restarts_init(&restarts);
    restarts_note_failure(&restarts, &gpu, 5, "one");
    restarts_note_failure(&restarts, &host, 5, "two");
    cr_assert_str_eq(restarts_paused(&restarts, &gpu, 6)->reason, "one");
    cr_assert_str_eq(restarts_paused(&restarts, &host, 6)->reason, "two");
    cr_assert_null(restarts_paused(&restarts, &moved, 6), "other hardware under the same number");
    restarts_finish(&restarts);
}

Test(restarts, a_start_that_works_forgets)
{
    struct restarts restarts;
    restarts_init(&restarts);
    restarts_note_failure(&restarts, &gpu, 5, "one");
    restarts_note_failure(&restarts, &gpu, 60, "two");
    restarts_note_success(&restarts, &gpu);
    restarts_note_success(&restarts, &gpu);
    cr_assert_null(restarts_paused(&restarts, &gpu, 61));
    restarts_note_failure(&restarts, &gpu, 70, "three");
    cr_assert_eq(restarts_paused(&restarts, &gpu, 71)->failed, 1);
    restarts_finish(&restarts);
}
