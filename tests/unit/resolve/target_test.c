#include <criterion/criterion.h>
#include <string.h>

#include "daemon/resolve/target.h"
#include "tests/unit/resolve/fixture.h"

struct settled_case {
    unsigned major, minor;
    const char *target;
    enum image_kind wanted;
    const char *settled;
};

static void expect_settled(const struct settled_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct compiler_facts facts = facts_of(cases[i].major, cases[i].minor);
        struct target target;
        struct error error = {0};
        char name[TARGET_TEXT];
        if (target_settle(text_of(cases[i].target), cases[i].wanted, &facts, &target, &error))
            cr_expect(false, "%s, NVRTC %u.%u: %s", cases[i].target, cases[i].major, cases[i].minor, error.text);
        else
            cr_expect_str_eq(target_name(&target, name), cases[i].settled, "%s, NVRTC %u.%u: %s", cases[i].target,
                             cases[i].major, cases[i].minor, name);
    }
}

#define NONE image_kind_absent
#define CUBIN IMAGE_KIND_CUBIN
#define PTX IMAGE_KIND_PTX

Test(target, B2_2_target_explicit)
{
    static const struct settled_case cases[] = {
        {13, 0, "sm_75", NONE, "sm_75"},
        {13, 0, "sm_90", NONE, "sm_90"},
        {13, 0, "sm_90", CUBIN, "sm_90"},
        {13, 0, "sm_90a", NONE, "sm_90a"},
        {13, 0, "sm_121a", NONE, "sm_121a"},
        {13, 0, "sm_100f", NONE, "sm_100f"},
        {12, 9, "sm_100f", NONE, "sm_100f"},
        {12, 0, "sm_90a", NONE, "sm_90a"},
        {11, 8, "sm_90", NONE, "sm_90"},
        {13, 0, "sm_90", PTX, "compute_90"},
        {13, 0, "sm_90a", PTX, "compute_90a"},
        {13, 0, "sm_100f", PTX, "compute_100f"},
        {13, 0, "compute_80", NONE, "compute_80"},
        {13, 0, "compute_80", PTX, "compute_80"},
        {13, 0, "compute_90a", NONE, "compute_90a"},
    };
    expect_settled(cases, ARRAY_SIZE(cases));
}

Test(target, B2_2_target_clamp)
{
    static const struct settled_case cases[] = {
        /* In the list: SASS for it, with the suffix from 9.0 on. */
        {13, 0, "cc_7.5", NONE, "sm_75"},
        {13, 0, "cc_8.9", NONE, "sm_89"},
        {13, 0, "cc_9.0", NONE, "sm_90a"},
        {13, 0, "cc_10.0", NONE, "sm_100a"},
        {13, 0, "cc_12.1", NONE, "sm_121a"},
        {13, 0, "cc_9.0", PTX, "compute_90a"},
        {13, 0, "cc_8.0", PTX, "compute_80"},
        /* The suffix begins with NVRTC 12.0. */
        {11, 8, "cc_9.0", NONE, "sm_90"},
        /* Above the newest: the newest, as PTX, without suffix. This is also an NVRTC older than the device. */
        {13, 0, "cc_12.9", NONE, "compute_121"},
        {13, 0, "cc_13.0", NONE, "compute_121"},
        {12, 0, "cc_10.0", NONE, "compute_90"},
        {12, 0, "cc_12.0", NONE, "compute_90"},
        {11, 2, "cc_9.0", NONE, "compute_86"},
        {11, 2, "cc_8.9", NONE, "compute_86"},
        {11, 8, "cc_9.9", PTX, "compute_90"},
        /* Missing in between: the nearest lower of the same major as SASS. */
        {12, 0, "cc_8.8", NONE, "sm_87"},
        {13, 0, "cc_8.5", NONE, "sm_80"},
        {13, 0, "cc_10.1", NONE, "sm_100"},
        {13, 0, "cc_10.9", CUBIN, "sm_103"},
        {13, 0, "cc_9.5", NONE, "sm_90"},
        {13, 0, "cc_9.5", PTX, "compute_90"},
        /* Missing in between, with nothing lower of the same major: PTX of the nearest lower. */
        {13, 0, "cc_7.9", NONE, "sm_75"},
    };
    expect_settled(cases, ARRAY_SIZE(cases));

    /* The same devices by the lists of four real releases. */
    static const struct settled_case releases[] = {
        {12, 8, "cc_8.8", NONE, "sm_87"},        {12, 9, "cc_8.8", NONE, "sm_87"},
        {13, 0, "cc_8.8", NONE, "sm_88"},        {12, 8, "cc_10.0", NONE, "sm_100a"},
        {13, 5, "cc_10.0", NONE, "sm_100a"},     {12, 8, "cc_10.1", NONE, "sm_101a"},
        {12, 9, "cc_10.1", NONE, "sm_101a"},     {13, 0, "cc_10.1", NONE, "sm_100"},
        {13, 5, "cc_10.1", NONE, "sm_100"},      {12, 8, "cc_10.3", NONE, "sm_101"},
        {12, 9, "cc_10.3", NONE, "sm_103a"},     {12, 9, "cc_10.7", NONE, "sm_103"},
        {13, 0, "cc_10.7", NONE, "sm_103"},      {13, 5, "cc_10.7", NONE, "sm_107a"},
        {12, 8, "cc_11.0", NONE, "compute_101"}, {12, 9, "cc_11.0", NONE, "compute_103"},
        {13, 0, "cc_11.0", NONE, "sm_110a"},     {12, 8, "cc_12.1", NONE, "compute_120"},
        {12, 9, "cc_12.1", NONE, "sm_121a"},     {12, 8, "cc_5.2", NONE, "sm_52"},
        {12, 9, "cc_7.2", NONE, "sm_72"},        {13, 5, "cc_13.0", NONE, "compute_121"},
    };
    expect_settled(releases, ARRAY_SIZE(releases));

    static const int64_t gap[] = {75, 86, 103, 120};
    struct compiler_facts facts = {.major = 13, .minor = 0, .archs = gap, .n_archs = ARRAY_SIZE(gap)};
    struct target target;
    struct error error;
    char name[TARGET_TEXT];
    cr_assert_eq(target_settle(TEXT_OF("cc_8.0"), NONE, &facts, &target, &error), 0);
    cr_expect_str_eq(target_name(&target, name), "compute_75");
    cr_expect_eq(target.device, 80);
    cr_assert_eq(target_settle(TEXT_OF("cc_10.0"), NONE, &facts, &target, &error), 0);
    cr_expect_str_eq(target_name(&target, name), "compute_86");
    cr_expect_eq(target.suffix, 0);
}

Test(target, B2_2_the_host_is_a_target)
{
    struct compiler_facts facts = {.kind = COMPILER_HOST, .major = 12, .minor = 2};
    struct target target;
    struct error error;
    char name[TARGET_TEXT];
    cr_assert_eq(target_settle(TEXT_OF("host"), NONE, &facts, &target, &error), 0);
    cr_expect_eq(target.image_kind, IMAGE_KIND_SHARED_OBJECT);
    cr_expect_str_eq(target_name(&target, name), "host");
}

Test(target, the_target_and_toolkit_headers_choose_the_compiler)
{
    struct compile_options options = {0};
    struct fusion fusion = {.target = TEXT_OF("host")};
    cr_expect_eq(compiler_for(&fusion), COMPILER_HOST);
    fusion.target = TEXT_OF("sm_90a");
    cr_expect_eq(compiler_for(&fusion), COMPILER_NVRTC);
    fusion.compile = &options;
    cr_expect_eq(compiler_for(&fusion), COMPILER_NVRTC);
    fusion.target = TEXT_OF("hosts");
    cr_expect_eq(compiler_for(&fusion), COMPILER_NVRTC);
    options.toolkit_headers = true;
    cr_expect_eq(compiler_for(&fusion), COMPILER_TOOLKIT);
    fusion.target = TEXT_OF("host");
    cr_expect_eq(compiler_for(&fusion), COMPILER_HOST);
}

struct refused_case {
    unsigned major, minor;
    const char *target;
    enum image_kind wanted;
    enum status code;
    const char *names[2]; /* what the message must name */
};

static void expect_refused(const struct refused_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct compiler_facts facts = facts_of(cases[i].major, cases[i].minor);
        struct target target, before;
        struct error error = {0};
        memset(&target, 0x5a, sizeof target);
        before = target;
        cr_assert_eq(target_settle(text_of(cases[i].target), cases[i].wanted, &facts, &target, &error), -1, "%s",
                     cases[i].target);
        cr_expect_eq(error.code, cases[i].code, "%s: %s", cases[i].target, error.text);
        cr_expect_eq(memcmp(&target, &before, sizeof target), 0, "%s: ret was touched", cases[i].target);
        for (size_t k = 0; k < 2 && cases[i].names[k]; k++)
            cr_expect_neq(strstr(error.text, cases[i].names[k]), NULL, "\"%s\" does not name \"%s\"", error.text,
                          cases[i].names[k]);
    }
}

#define ALL_13_0 "75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121"

Test(target, B2_2_target_refused)
{
    static const struct refused_case cases[] = {
        {13, 0, "sm_70", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_70", ALL_13_0}},
        {13, 0, "sm_101", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_101", ALL_13_0}},
        {13, 0, "compute_70", NONE, STATUS_UNSUPPORTED_TARGET, {"compute_70", ALL_13_0}},
        {12, 0, "sm_100", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_100", "NVRTC 12.0"}},
        {13, 0, "cc_7.0", NONE, STATUS_UNSUPPORTED_TARGET, {"cc_7.0", ALL_13_0}},
        {11, 2, "cc_3.0", NONE, STATUS_UNSUPPORTED_TARGET, {"cc_3.0", "35, 37"}},
        {13, 0, "sm_89a", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_89a", "90"}},
        {11, 8, "sm_90a", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_90a", "12.0"}},
        {13, 0, "sm_90f", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_90f", "100"}},
        {12, 8, "sm_90f", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_90f", "100"}},
        {12, 8, "cc_3.7", NONE, STATUS_UNSUPPORTED_TARGET, {"cc_3.7", "NVRTC 12.8 supports 50, 52"}},
        {13, 5, "cc_7.2", NONE, STATUS_UNSUPPORTED_TARGET, {"cc_7.2", "NVRTC 13.5 supports 75, 80"}},
        {12, 8, "sm_100f", NONE, STATUS_UNSUPPORTED_TARGET, {"sm_100f", "needs NVRTC 12.9; NVRTC 12.8 supports"}},
        {13, 0, "cc_13.0", CUBIN, STATUS_UNSUPPORTED_TARGET, {"cc_13.0", "PTX"}},
        {13, 0, "compute_80", CUBIN, STATUS_INVALID_OPTION, {"compute_80", "cubin"}},
        {13, 0, "host", CUBIN, STATUS_INVALID_OPTION, {"host", "cubin"}},
        {13, 0, "host", PTX, STATUS_INVALID_OPTION, {"host", "ptx"}},
        {13, 0, "sm_90a", IMAGE_KIND_SHARED_OBJECT, STATUS_INVALID_OPTION, {"shared_object", "host"}},
    };
    expect_refused(cases, ARRAY_SIZE(cases));
}

Test(target, B2_2_target_malformed)
{
    static const char *const words[] = {
        "",        "sm_",      "sm_090",  "sm_90b",  "sm_90aa", "sm_90 ",   " sm_90", "SM_90",
        "sm_9000", "sm_-90",   "sm_9.0",  "sm90",    "90",      "cc_90",    "cc_9",   "cc_9.",
        "cc_.0",   "cc_9.10",  "cc_9.0a", "cc_09.0", "cc_0.9",  "cc_100.0", "gpu",    "compute",
        "host ",   "compute_", "sm_0",    "sm_1e1",  "sm_90\n", "cc_9.x",   "hosts",
    };
    struct compiler_facts facts = facts_of(13, 0);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        struct target target;
        struct error error = {0};
        cr_expect_eq(target_settle(text_of(words[i]), NONE, &facts, &target, &error), -1, "\"%s\"", words[i]);
        cr_expect_eq(error.code, STATUS_INVALID_FIELD, "\"%s\": %s", words[i], error.text);
    }
    struct target target;
    struct error error = {0};
    cr_expect_eq(target_settle((struct text){0}, NONE, &facts, &target, &error), -1);
    cr_expect_eq(error.code, STATUS_MISSING_FIELD);
}

Test(target, B2_2_family_suffix_needs_its_compiler)
{
    static const int64_t archs[] = {90, 100};
    struct compiler_facts facts = {.major = 12, .minor = 8, .archs = archs, .n_archs = 2};
    struct target target;
    struct error error = {0};
    cr_expect_eq(target_settle(TEXT_OF("sm_100f"), NONE, &facts, &target, &error), -1);
    cr_expect_eq(error.code, STATUS_UNSUPPORTED_TARGET);
    cr_expect_neq(strstr(error.text, "12.9"), NULL, "%s", error.text);
    facts.minor = 9;
    cr_expect_eq(target_settle(TEXT_OF("sm_100f"), NONE, &facts, &target, &error), 0);
}

/* PTX is as new as the compiler, and a driver loads none that is newer than itself. */
Test(target, B2_2_ptx_that_the_driver_is_too_old_for)
{
    static const struct {
        unsigned major, minor, driver;
        const char *target;
        enum image_kind wanted;
        const char *settled; /* NULL: refused */
        const char *names[2];
    } cases[] = {
        {13, 0, 12080, "cc_13.0", NONE, NULL, {"PTX 9.0 of NVRTC 13.0", "driver (CUDA 12.8) loads PTX up to 8.7"}},
        {13, 0, 12080, "cc_9.0", PTX, NULL, {"NVRTC 13.0", "CUDA 12.8"}},
        {13, 5, 13000, "cc_13.0", NONE, NULL, {"PTX 9.5", "9.0"}},
        {12, 9, 12080, "cc_12.9", NONE, NULL, {"PTX 8.8", "8.7"}},
        {12, 8, 12090, "cc_12.1", NONE, "compute_120", {0}},
        {13, 0, 13000, "cc_13.0", NONE, "compute_121", {0}},
        {13, 0, 13020, "cc_13.0", NONE, "compute_121", {0}},
        /* 12.6 writes what 12.5 loads. */
        {12, 6, 12050, "cc_9.9", NONE, "compute_90", {0}},
        {12, 5, 12040, "cc_9.9", NONE, NULL, {"PTX 8.5", "8.4"}},
        {11, 8, 11080, "cc_9.9", NONE, "compute_90", {0}},
        {11, 8, 11070, "cc_9.9", NONE, NULL, {"PTX 7.8", "7.7"}},
        /* SASS is not the driver's to compile; nobody knows for whose driver an explicit target is. */
        {13, 0, 12080, "cc_9.0", NONE, "sm_90a", {0}},
        {13, 0, 12080, "compute_90", NONE, "compute_90", {0}},
        {13, 0, 0, "cc_13.0", NONE, "compute_121", {0}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct compiler_facts facts = facts_of(cases[i].major, cases[i].minor);
        struct target target;
        struct error error = {0};
        char name[TARGET_TEXT];
        facts.driver = cases[i].driver;
        int status = target_settle(text_of(cases[i].target), cases[i].wanted, &facts, &target, &error);
        cr_expect_eq(status == 0, cases[i].settled != NULL, "case %zu: %s", i, error.text);
        if (status == 0) {
            cr_expect_str_eq(target_name(&target, name), cases[i].settled, "case %zu", i);
            continue;
        }
        cr_expect_eq(error.code, STATUS_UNSUPPORTED_TARGET);
        for (size_t k = 0; k < 2; k++)
            cr_expect_neq(strstr(error.text, cases[i].names[k]), NULL, "case %zu: %s", i, error.text);
    }
}

Test(target, B2_2_compiler_without_a_list)
{
    struct compiler_facts facts = {.major = 11, .minor = 0};
    struct target target;
    struct error error = {0};
    cr_expect_eq(target_settle(TEXT_OF("cc_9.0"), NONE, &facts, &target, &error), -1);
    cr_expect_eq(error.code, STATUS_UNSUPPORTED_TARGET);
    cr_expect_neq(strstr(error.text, "NVRTC 11.0"), NULL, "%s", error.text);
}
