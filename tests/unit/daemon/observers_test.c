/* What observers keep up with, and what is dropped. */
#include "daemon/observers.h"

#include <criterion/criterion.h>
#include <string.h>

static uv_loop_t loop;
static struct stats_reply stats;
static struct transform_spec specs[2];
static struct observers *observers;

static void setup(void)
{
    cr_assert_eq(uv_loop_init(&loop), 0);
}

static void teardown(void)
{
    observers_stop(observers);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0, "a handle is still open");
    observers_destroy(observers);
}

TestSuite(observers, .init = setup, .fini = teardown);

static void create(const char *first, const char *second)
{
    struct error error;
    const struct observers_options options = {LEAF, specs, second ? 2 : 1, &stats};
    cr_assert_eq(observer_spec_parse(first, &specs[0], &error), 0, "%s", error.text);
    if (second)
        cr_assert_eq(observer_spec_parse(second, &specs[1], &error), 0, "%s", error.text);
    observers = observers_create(&loop, &options);
    cr_assert_not_null(observers);
}

static void offer(size_t image_size)
{
    static uint8_t image[64 << 20];
    struct kernel kernel = {.has_key = true,
                            .target = TEXT_OF("host"),
                            .image_kind = IMAGE_KIND_SHARED_OBJECT,
                            .compiler = TEXT_OF("test"),
                            .has_build = true,
                            .code = TEXT_OF("code"),
                            .image = {image, image_size},
                            .image_size = image_size,
                            .has_image_size = true};
    observers_offer(observers, &kernel);
}

Test(observers, B1_4_each_sees_each_kernel)
{
    create("one /bin/true", "two /bin/false");
    for (int i = 0; i < 5; i++)
        offer(100);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(stats.observed_total, 10);
    cr_assert_eq(stats.observers_failed_total, 5);
    cr_assert_eq(stats.observers_dropped_total, 0);
}

Test(observers, B1_4_what_they_do_not_keep_up_with_is_dropped_and_counted)
{
    create("slow:600000 /bin/sleep 1000", NULL);
    for (int i = 0; i < 100; i++)
        offer(100);
    cr_assert_eq(stats.observers_dropped_total, 100 - 1 - 64);
}

Test(observers, B1_4_the_bytes_that_wait_are_bounded)
{
    create("slow:600000 /bin/sleep 1000", NULL);
    for (int i = 0; i < 10; i++)
        offer(64 << 20);
    cr_assert_eq(stats.observers_dropped_total, 10 - 4);
}

Test(observers, B1_4_one_that_is_not_there_is_told)
{
    create("none /nowhere/observer", NULL);
    offer(100);
    offer(100);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(stats.observers_failed_total, 2);
    cr_assert_eq(stats.observed_total, 0);
}
