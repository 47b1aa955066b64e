#include "daemon/devices/naming.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define A "GPU-ea8cf035-fea7-4499-df44-0d1aa8d9c528"
#define B "GPU-ea8c1111-0000-4000-8000-000000000001"
#define C "GPU-1b2c3d4e-0000-4000-8000-000000000002"
#define M "MIG-5f5f5f5f-0000-4000-8000-000000000003"

#define CUDA(number, id, bus)                                                                                          \
    {                                                                                                                  \
        .ordinal = number, .name = TEXT_OF("GPU " #number), .uuid = {id, sizeof id - 1}, .kind = DEVICE_KIND_CUDA,     \
        .pci = {                                                                                                       \
            bus,                                                                                                       \
            sizeof bus - 1                                                                                             \
        }                                                                                                              \
    }
#define HOST                                                                                                           \
    {                                                                                                                  \
        .name = TEXT_OF("CPU"), .kind = DEVICE_KIND_HOST                                                               \
    }

/* A node where the fastest device is not the first on the bus. Indices are not ordinals: the host device stands first.
 */
static const struct device node[] = {
    HOST,
    CUDA(0, A, "0000:80:00.0"),
    CUDA(1, B, "0000:1b:00.0"),
    CUDA(2, C, "0000:9f:00.0"),
    CUDA(3, M, "0001:02:00.0"),
};
#define N 5

/* The ordinals that are seen, as "2,0". */
static const char *seen_of(const struct device *devices, size_t n, const char *visible, const char *order)
{
    static char text[256];
    struct device_view view = {visible, order};
    size_t seen[DEVICES_MAX];
    size_t n_seen = naming_visible(devices, n, &view, seen), used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < n_seen; i++) {
        cr_assert_eq(devices[seen[i]].kind, DEVICE_KIND_CUDA);
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%u", i ? "," : "", (unsigned)devices[seen[i]].ordinal);
    }
    return text;
}

/* What the driver (580, on an H200) makes of these was looked up there, as far as one device can show it. */
static const struct {
    const char *visible, *order, *seen;
} views[] = {
    {NULL, NULL, "0,1,2,3"},
    {"", NULL, ""},
    {" ", NULL, ""},
    {"0", NULL, "0"},
    {"2,1", NULL, "2,1"},
    {"3,2,1,0", NULL, "3,2,1,0"},
    /* the first entry that names nothing ends the list */
    {"0,2,-1,1", NULL, "0,2"},
    {"-1", NULL, ""},
    {"-1,0", NULL, ""},
    {"0,9,1", NULL, "0"},
    {"4", NULL, ""},
    {"0,", NULL, "0"},
    {",0", NULL, ""},
    {"0,,1", NULL, "0"},
    {"a", NULL, ""},
    {"all", NULL, ""},
    {"none", NULL, ""},
    {"NoDevFiles", NULL, ""},
    {"18446744073709551616", NULL, ""},
    {"999999999999999999999999", NULL, ""},
    /* numbers are read loosely */
    {" 1", NULL, "1"},
    {"1 ", NULL, "1"},
    {"\t1", NULL, "1"},
    {"01", NULL, "1"},
    {"010", NULL, ""}, /* ten */
    {"0x1", NULL, "0"},
    {"+1", NULL, "1"},
    {"-0", NULL, "0"},
    {"1gpu,2ampere", NULL, "1,2"},
    {"0-2", NULL, "0"},
    {"0;1", NULL, "0"},
    {"0 1", NULL, "0"},
    {"1 , 0", NULL, "1,0"},
    /* twice is not at all */
    {"0,0", NULL, ""},
    {"0,1,0", NULL, ""},
    {"0,-1,0", NULL, "0"},
    {A "," A, NULL, ""},
    /* UUIDs */
    {A, NULL, "0"},
    {C "," A, NULL, "2,0"},
    {"GPU-1b2c", NULL, "2"},
    {"GPU-1", NULL, "2"},
    {"GPU-1B2C3D4E", NULL, "2"},
    {"GPU-ea8cf", NULL, "0"},
    {"GPU-ea8c", NULL, ""}, /* of two devices */
    {"GPU-1b2c,GPU-ea8c,GPU-ea8cf", NULL, "2"},
    {"GPU-", NULL, ""},
    {"GPU--", NULL, ""},
    {"GPU", NULL, ""},
    {"gpu-1b2c", NULL, ""},
    {"1b2c3d4e-0000-4000-8000-000000000002", NULL, "1"}, /* the number 1, and something behind it */
    {" " A, NULL, ""},
    {A " ", NULL, "0"},
    {A "x", NULL, "0"},
    {A "0", NULL, ""},
    {C ",-1," A, NULL, "2"},
    {"GPU-9999", NULL, ""},
    /* one kind of entry at a time */
    {C ",0", NULL, "2"},
    {"0," C, NULL, "0"},
    /* instances */
    {M, NULL, "3"},
    {M "," A, NULL, "3,0"},
    {"MIG-5f5f", NULL, "3"},
    {"MIG-GPU-5f5f5f5f/1/0", NULL, ""},
    /* the order of numbers, but not that of UUIDs */
    {NULL, "FASTEST_FIRST", "0,1,2,3"},
    {NULL, "PCI_BUS_ID", "1,0,2,3"},
    {"0", "PCI_BUS_ID", "1"},
    {"0,1", "PCI_BUS_ID", "1,0"},
    {A "," B, "PCI_BUS_ID", "0,1"},
    {"0", "", ""},
    {"0", "pci_bus_id", ""},
    {NULL, "nonsense", ""},
    {A, "nonsense", ""},
};

Test(naming, B6_what_a_client_sees_is_what_its_own_cuda_would_see)
{
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        const char *seen = seen_of(node, N, views[i].visible, views[i].order);
        cr_expect_str_eq(seen, views[i].seen, "\"%s\", order %s: \"%s\", not \"%s\"",
                         views[i].visible ? views[i].visible : "(not set)",
                         views[i].order ? views[i].order : "(not set)", seen, views[i].seen);
    }
}

Test(naming, bus_ids_that_are_not_known_are_not_guessed)
{
    static const struct device some[] = {CUDA(0, A, "0000:80:00.0"), {.ordinal = 1, .kind = DEVICE_KIND_CUDA}};
    cr_expect_str_eq(seen_of(some, 2, NULL, "PCI_BUS_ID"), "");
    cr_expect_str_eq(seen_of(some, 2, NULL, NULL), "0,1");
    static const struct device odd[] = {CUDA(0, A, "unknown")};
    cr_expect_str_eq(seen_of(odd, 1, "0", "PCI_BUS_ID"), "");
}

Test(naming, as_many_devices_as_there_may_be)
{
    static struct device many[DEVICES_MAX];
    for (size_t i = 0; i < DEVICES_MAX; i++)
        many[i] = (struct device){.ordinal = DEVICES_MAX - 1 - i, .kind = DEVICE_KIND_CUDA};
    struct device_view view = {NULL, NULL};
    size_t seen[DEVICES_MAX];
    cr_assert_eq(naming_visible(many, DEVICES_MAX, &view, seen), DEVICES_MAX);
    cr_assert_eq(seen[0], DEVICES_MAX - 1, "by ordinal");
    cr_assert_eq(seen[DEVICES_MAX - 1], 0);
}

/* ---- names ---- */

static const char *chosen(const struct device *devices, size_t n, const char *name, const char *visible)
{
    static char label[DEVICE_LABEL];
    struct device_view view = {visible, NULL};
    struct error error;
    size_t index;
    if (naming_choose(devices, n, &view, text_of(name), &index, &error) < 0) {
        cr_assert_eq(error.code, STATUS_NO_DEVICE);
        return "none";
    }
    device_label(devices[index].kind, devices[index].ordinal, label);
    return label;
}

static const struct {
    const char *name, *visible, *chosen;
} names[] = {
    {NULL, NULL, "0"},
    {NULL, "2,1", "2"},
    {NULL, "", "host"},
    {NULL, "9", "host"},
    {"host", NULL, "host"},
    {"host", "", "host"},
    {"0", NULL, "0"},
    {"3", NULL, "3"},
    {"4", NULL, "none"},
    {"0", "2,1", "2"},
    {"1", "2,1", "1"},
    {"2", "2,1", "none"},
    {"0", "", "none"},
    {A, NULL, "0"},
    {A, "2", "0"}, /* a UUID is absolute */
    {"GPU-1b2c", "", "2"},
    {"GPU-ea8c", NULL, "none"},
    {A "x", NULL, "none"},
    {M, NULL, "3"},
    {"", NULL, "none"},
    {"-1", NULL, "none"},
    {"+0", NULL, "none"},
    {" 0", NULL, "none"},
    {"0 ", NULL, "none"},
    {"0,1", NULL, "none"},
    {"cuda:0", NULL, "none"},
    {"HOST", NULL, "none"},
};

Test(naming, a_device_by_its_name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *got = chosen(node, N, names[i].name, names[i].visible);
        cr_expect_str_eq(got, names[i].chosen, "%s with %s: %s, not %s", names[i].name ? names[i].name : "(absent)",
                         names[i].visible ? names[i].visible : "(not set)", got, names[i].chosen);
    }
}

static const char *refused(const struct device *devices, size_t n, const char *name, const char *visible)
{
    static struct error error;
    struct device_view view = {visible, NULL};
    size_t index = 77;
    cr_assert_eq(naming_choose(devices, n, &view, text_of(name), &index, &error), -1);
    cr_assert_eq(index, 77, "untouched");
    cr_assert_eq(error.code, STATUS_NO_DEVICE);
    return error.text;
}

Test(naming, what_is_not_there_is_named_with_what_is)
{
    cr_expect_str_eq(refused(node, 2, "1", NULL), "device: no \"1\"; there is \"0\" (GPU 0), \"host\"");
    cr_expect_str_eq(refused(node, N, "2", "1,0"),
                     "device: no \"2\"; there is \"0\" (GPU 1), \"1\" (GPU 0), \"host\"; of 4 CUDA devices the client "
                     "sees 2, by its CUDA_VISIBLE_DEVICES=1,0");
    cr_expect_str_eq(refused(node, 1, "0", NULL), "device: no \"0\"; there is \"host\"");
    cr_expect_str_eq(refused(NULL, 0, "host", NULL), "device: no \"host\"; there is none");
    cr_expect_str_eq(refused(NULL, 0, NULL, NULL), "device: none to choose; there is none");
    cr_expect_str_eq(refused(node + 1, 1, NULL, ""),
                     "device: none to choose; there is none; of 1 CUDA device the client sees 0, by its "
                     "CUDA_VISIBLE_DEVICES=");
}

Test(naming, a_name_of_any_bytes_makes_a_readable_error)
{
    cr_expect_str_eq(refused(node, 1, "\n\x80\"", NULL), "device: no \"??\"\"; there is \"host\"");
    static char long_list[1025];
    memset(long_list, '7', sizeof long_list - 1);
    refused(node, N, "0123456789012345678901234567890123456789012345678901234567890123", long_list);
}
