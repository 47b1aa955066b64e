/* Tensors in files: every header that NumPy writes, and what is refused. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "client/fusionctl/data_file.h"
#include "client/fusionctl/walk.h"

static char path[64];
static const int64_t sizes[] = {2, 3};

static void make_path(void)
{
    strcpy(path, "/tmp/fusiond-data-XXXXXX.npy");
    int fd = mkstemps(path, 4);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void remove_path(void)
{
    unlink(path);
}

TestSuite(npy, .init = make_path, .fini = remove_path);

static void write_bytes(const void *bytes, size_t size, const void *more, size_t more_size)
{
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out);
    cr_assert(fwrite(bytes, 1, size, out) == size && fwrite(more, 1, more_size, out) == more_size);
    fclose(out);
}

/* As NumPy does it: padded with spaces, a newline at the end, elements at a multiple of 64. */
static void write_npy(int version, const char *header, const void *elements, size_t size)
{
    char head[512] = "\x93NUMPY";
    size_t at = version == 1 ? 10 : 12, length = strlen(header) + 1;
    size_t padded = (at + length + 63) / 64 * 64 - at;
    head[6] = (char)version;
    head[8] = (char)(padded & 0xff);
    head[9] = (char)(padded >> 8);
    memset(head + at, ' ', padded);
    memcpy(head + at, header, strlen(header));
    head[at + padded - 1] = '\n';
    write_bytes(head, at + padded, elements, size);
}

static int read_as(enum dtype dtype, struct data_file *ret, struct error *error)
{
    return data_file_read(path, dtype, sizes, 2, ret, error);
}

static void expect_floats(int version, const char *header)
{
    const float values[] = {0, 1, 2, 3, 4, 5};
    struct data_file file;
    struct error error;
    write_npy(version, header, values, sizeof values);
    cr_assert_eq(read_as(DTYPE_FLOAT32, &file, &error), 0, "%s: %s", header, error.text);
    cr_assert_eq(file.dtype, DTYPE_FLOAT32);
    cr_assert_eq(memcmp(file.elements, values, sizeof values), 0);
    data_file_finish(&file);
}

Test(npy, headers_of_every_version_and_order)
{
    expect_floats(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    expect_floats(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    expect_floats(3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    expect_floats(1, "{\"shape\":(2,3,),\"descr\":\"=f4\",\"fortran_order\":False}");
}

Test(npy, every_type_that_numpy_has)
{
    static const struct {
        const char *descr;
        enum dtype dtype;
        size_t size;
    } types[] = {{"|b1", DTYPE_BOOL, 1},      {"|i1", DTYPE_INT8, 1},         {"<i2", DTYPE_INT16, 2},
                 {"<i4", DTYPE_INT32, 4},     {"<i8", DTYPE_INT64, 8},        {"|u1", DTYPE_UINT8, 1},
                 {"<u2", DTYPE_UINT16, 2},    {"<u4", DTYPE_UINT32, 4},       {"<u8", DTYPE_UINT64, 8},
                 {"<f2", DTYPE_FLOAT16, 2},   {"<f4", DTYPE_FLOAT32, 4},      {"<f8", DTYPE_FLOAT64, 8},
                 {"<c8", DTYPE_COMPLEX64, 8}, {"<c16", DTYPE_COMPLEX128, 16}, {"<V2", DTYPE_BFLOAT16, 2},
                 {"|V2", DTYPE_BFLOAT16, 2}};
    const char zeros[6 * 16] = "";
    char header[128];
    struct data_file file;
    struct error error;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }", types[i].descr);
        write_npy(1, header, zeros, 6 * types[i].size);
        cr_assert_eq(read_as(DTYPE_BFLOAT16, &file, &error), 0, "%s: %s", types[i].descr, error.text);
        cr_assert_eq(file.dtype, types[i].dtype, "%s", types[i].descr);
        data_file_finish(&file);
    }
}

Test(npy, ranks_of_none_and_one)
{
    const double value = 7;
    const int64_t one = 1;
    struct data_file file;
    struct error error;
    write_npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", &value, sizeof value);
    cr_assert_eq(data_file_read(path, DTYPE_FLOAT64, NULL, 0, &file, &error), 0, "%s", error.text);
    cr_assert_eq(*(const double *)file.elements, 7);
    data_file_finish(&file);
    write_npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", &value, sizeof value);
    cr_assert_eq(data_file_read(path, DTYPE_FLOAT64, &one, 1, &file, &error), 0, "%s", error.text);
    data_file_finish(&file);
}

Test(npy, elements_are_aligned_wherever_they_stand)
{
    const double values[] = {1, 2, 3, 4, 5, 6};
    static const char header[] = "{'descr':'<f8','fortran_order':False,'shape':(2,3)}\n";
    char head[128] = "\x93NUMPY\1";
    struct data_file file;
    struct error error;
    head[8] = sizeof header - 1;
    memcpy(head + 10, header, sizeof header - 1);
    write_bytes(head, 10 + sizeof header - 1, values, sizeof values);
    cr_assert_eq(read_as(DTYPE_FLOAT64, &file, &error), 0, "%s", error.text);
    cr_assert_eq((uintptr_t)file.elements % 8, 0);
    cr_assert_eq(memcmp(file.elements, values, sizeof values), 0);
    data_file_finish(&file);
}

static void refuse(const char *header, size_t size, const char *text)
{
    const char elements[64] = "";
    struct data_file file = {0};
    struct error error;
    write_npy(1, header, elements, size);
    cr_assert_eq(read_as(DTYPE_FLOAT32, &file, &error), -1, "%s was taken", header);
    cr_assert_eq(error.code, STATUS_INVALID_FILE);
    cr_assert(strstr(error.text, text), "%s: %s", header, error.text);
    cr_assert(strstr(error.text, path), "%s", error.text);
    cr_assert_null(file.bytes);
}

Test(npy, what_is_wrong_is_named)
{
    refuse("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, "Fortran order");
    refuse("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 24, "\">f4\"");
    refuse("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2, 3), }", 24, "\"<M8[ns]\"");
    refuse("{'descr': '|V3', 'fortran_order': False, 'shape': (2, 3), }", 24, "\"|V3\"");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 24, "rank 1; the tensor has 2");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", 24, "size[0] is 3; the tensor's is 2");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23, "23 bytes");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25, "25 bytes");
}

Test(npy, headers_that_are_none)
{
    static const char *const headers[] = {
        "",
        "{}",
        "[1]",
        "{'descr': '<f4', 'fortran_order': False, }",
        "{'descr': '<f4', 'shape': (2, 3), }",
        "{'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4444444444444444444', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        ("{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), 'descr': '<f4', "
         "'fortran_order': False}"),
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        refuse(headers[i], 24, "not an .npy file");
}

Test(npy, files_that_are_none)
{
    static const struct {
        const char *bytes;
        size_t size;
    } files[] = {{"", 0},
                 {"\x93NUMPY\1\0", 8},
                 {"\x93NUMPY\1\0\xff\xff{}", 12},
                 {"\x93NUMPY\1\0\0\0{}", 12},
                 {"\x93NUMPY\2\0\xff\xff\xff\xff{}", 14},
                 {"\x93NUMPY\4\0\2\0{}\n\n", 14},
                 {"NUMPYNUMPYNUMPY", 15}};
    struct data_file file;
    struct error error;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        write_bytes(files[i].bytes, files[i].size, "", 0);
        cr_assert_eq(read_as(DTYPE_FLOAT32, &file, &error), -1, "%zu", i);
        cr_assert(strstr(error.text, "not an .npy file"), "%zu: %s", i, error.text);
    }
    cr_assert_eq(data_file_read("/nonexistent.npy", DTYPE_INT8, sizes, 2, &file, &error), -1);
    cr_assert(strstr(error.text, "ENOENT"), "%s", error.text);
    cr_assert_eq(data_file_read("/tmp", DTYPE_INT8, sizes, 2, &file, &error), -1);
    cr_assert(strstr(error.text, "not a regular file"), "%s", error.text);
}

Test(npy, raw_files_are_elements_alone)
{
    const int16_t values[] = {1, 2, 3, 4, 5, 6};
    const int64_t huge[] = {INT64_MAX, INT64_MAX}, empty[] = {0, 3};
    struct data_file file;
    struct error error;
    remove_path();
    strcpy(strrchr(path, '.'), ".bin");
    write_bytes(values, sizeof values, "", 0);
    cr_assert_eq(read_as(DTYPE_INT16, &file, &error), 0, "%s", error.text);
    cr_assert(file.dtype == DTYPE_INT16 && memcmp(file.elements, values, sizeof values) == 0);
    data_file_finish(&file);
    cr_assert_eq(read_as(DTYPE_INT32, &file, &error), -1);
    cr_assert(strstr(error.text, "12 bytes of elements; a tensor of these sizes in int32 has 24"), "%s", error.text);
    cr_assert_eq(data_file_read(path, DTYPE_INT16, huge, 2, &file, &error), -1);
    write_bytes("", 0, "", 0);
    cr_assert_eq(data_file_read(path, DTYPE_INT16, empty, 2, &file, &error), 0, "%s", error.text);
    data_file_finish(&file);
}

/* ---- walking ---- */

Test(walk, follows_strides_in_row_major_order)
{
    const struct shape shape = {.rank = 2, .alloc_rank = 2, .sizes = {2, 3}, .strides = {1, 10}};
    static const int64_t offsets[] = {0, 10, 20, 1, 11, 21};
    struct walk walk = {.shape = &shape};
    char index[32];
    for (int i = 0; i < 6; i++, walk_step(&walk))
        cr_assert_eq(walk.offset, offsets[i], "%d", i);
    cr_assert_eq(walk.offset, 0, "around");
    for (int i = 0; i < 5; i++)
        walk_step(&walk);
    walk_print(&walk, index, sizeof index);
    cr_assert_str_eq(index, "1, 2");
}

Test(walk, dimensions_without_a_stride_stand_still)
{
    const struct shape shape = {.rank = 2, .alloc_rank = 1, .sizes = {2, 2}, .strides = {1}};
    struct walk walk = {.shape = &shape};
    walk_step(&walk);
    cr_assert_eq(walk.offset, 0);
    walk_step(&walk);
    cr_assert_eq(walk.offset, 1);
}
