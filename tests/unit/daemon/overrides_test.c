/* Which files are overrides, and which are not. */
#include "daemon/overrides.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_OF_ABC "abababababababababababababababababababababababababababababababab.cu"

static char folder[] = "/tmp/overrides.XXXXXX";
static struct overrides *overrides;
static struct override_note note;
static uint8_t key[KEY_SIZE];

static void setup(void)
{
    cr_assert_not_null(mkdtemp(folder));
    overrides = overrides_create(folder);
    cr_assert_not_null(overrides);
    memset(key, 0xab, sizeof key);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

static void teardown(void)
{
    overrides_destroy(overrides);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(overrides, .init = setup, .fini = teardown);

static void path_of(const char *name, char ret[256])
{
    snprintf(ret, 256, "%s/%s", folder, name);
}

static void put(const char *name, const char *bytes, size_t size)
{
    char path[256];
    path_of(name, path);
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
    cr_assert_eq(chmod(path, 0600), 0);
}

static struct text find(const char *label, unsigned ordinal)
{
    note = (struct override_note){.ordinal = ordinal};
    return overrides_find(overrides, key, text_of(label), &note);
}

static void expect(struct text found, const char *text)
{
    cr_assert_not_null(found.at, "%s", note.problem);
    cr_assert_str_eq(found.at, text);
    cr_assert_eq(found.size, strlen(text));
    cr_assert_str_eq(note.problem, "");
}

static void expect_problem(struct text found, const char *words)
{
    cr_assert_null(found.at);
    cr_assert_str_eq(note.file, "");
    cr_assert(strstr(note.problem, words), "%s", note.problem);
}

Test(overrides, B4_5_by_key_first_and_then_by_label_and_ordinal)
{
    cr_assert_null(find("soft max", 2).at);
    cr_assert_str_eq(note.problem, "");
    put("soft_max.2.cu", "by label", 8);
    expect(find("soft max", 2), "by label");
    cr_assert_str_eq(note.file, "soft_max.2.cu");
    cr_assert_eq(memcmp(note.original, key, sizeof key), 0);
    cr_assert_null(find("soft max", 1).at);
    cr_assert_null(find("soft max", 0).at);
    cr_assert_null(find(NULL, 2).at);
    put(NAME_OF_ABC, "by key", 6);
    expect(find("soft max", 2), "by key");
    cr_assert_str_eq(note.file, NAME_OF_ABC);
}

Test(overrides, B4_5_a_label_is_no_path)
{
    char inner[256];
    path_of("inner", inner);
    cr_assert_eq(mkdir(inner, 0700), 0);
    put("inner/x.1.cu", "within", 6);
    cr_assert_null(find("inner/x", 1).at);
    put("_.._etc_passwd.1.cu", "plain", 5);
    expect(find("../../etc/passwd", 1).at ? find("../../etc/passwd", 1) : find("/../etc/passwd", 1), "plain");
    char label[LIMIT_NAME + 1];
    memset(label, 'l', LIMIT_NAME);
    label[LIMIT_NAME] = '\0';
    cr_assert_null(find(label, 1).at, "longer than any file's name");
    cr_assert_str_eq(note.problem, "");
}

Test(overrides, B4_5_a_changed_file_is_read_again)
{
    put("l.1.cu", "one", 3);
    expect(find("l", 1), "one");
    expect(find("l", 1), "one");
    put("l.1.cu", "two", 3); /* as long, and within the same moment */
    expect(find("l", 1), "two");
    put("new", "three", 5);
    char from[256], to[256];
    path_of("new", from);
    path_of("l.1.cu", to);
    cr_assert_eq(rename(from, to), 0);
    expect(find("l", 1), "three");
    cr_assert_eq(unlink(to), 0);
    cr_assert_null(find("l", 1).at);
    put("l.1.cu", "", 0);
    expect(find("l", 1), "");
}

Test(overrides, B4_5_many_files_are_bounded_in_memory)
{
    char name[64];
    for (unsigned i = 1; i <= 200; i++) {
        snprintf(name, sizeof name, "l.%u.cu", i);
        put(name, name, strlen(name));
        expect(find("l", i), name);
    }
    expect(find("l", 1), "l.1.cu");
}

Test(overrides, B4_5_what_others_could_have_written_is_not_used)
{
    char path[256], other[256];
    put("l.1.cu", "text", 4);
    path_of("l.1.cu", path);
    cr_assert_eq(chmod(path, 0620), 0);
    expect_problem(find("l", 1), "can be written by others");
    cr_assert_eq(chmod(path, 0602), 0);
    expect_problem(find("l", 1), "can be written by others");
    cr_assert_eq(chmod(path, 0644), 0);
    expect(find("l", 1), "text");
    if (geteuid() == 0) {
        cr_assert_eq(chown(path, 1234, 0), 0);
        expect_problem(find("l", 1), "belongs neither");
        cr_assert_eq(chown(path, 0, 0), 0);
    }
    cr_assert_eq(chmod(folder, 0777), 0);
    expect_problem(find("l", 1), "can be written by others");
    cr_assert_eq(chmod(folder, 0700), 0);
    expect(find("l", 1), "text");
    path_of("other", other);
    cr_assert_eq(rename(path, other), 0);
    cr_assert_eq(symlink("other", path), 0);
    expect_problem(find("l", 1), "symbolic link");
}

Test(overrides, B4_5_only_regular_files_of_bounded_size_without_NUL)
{
    char path[256];
    path_of("l.1.cu", path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_problem(find("l", 1), "no regular file");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_problem(find("l", 1), "no regular file");
    cr_assert_eq(rmdir(path), 0);
    put("l.1.cu", "a\0b", 3);
    expect_problem(find("l", 1), "NUL");
    put("l.1.cu", "", 0);
    cr_assert_eq(truncate(path, (off_t)LIMIT_INLINE + 1), 0);
    expect_problem(find("l", 1), "above the limit of 1048576");
}

Test(overrides, B4_5_a_missing_folder_is_a_problem_and_no_more)
{
    struct overrides *none = overrides_create("/nowhere/overrides");
    note = (struct override_note){.ordinal = 1};
    cr_assert_null(overrides_find(none, key, text_of("l"), &note).at);
    cr_assert(strstr(note.problem, "/nowhere/overrides"), "%s", note.problem);
    overrides_destroy(none);
}

Test(overrides, B7_1_ordinals_are_those_of_a_label)
{
    struct ordinals ordinals = {0};
    uint8_t other[KEY_SIZE] = {1}, third[KEY_SIZE] = {2};
    cr_assert_eq(ordinals_of(&ordinals, text_of("a"), key), 1);
    cr_assert_eq(ordinals_of(&ordinals, text_of("a"), other), 2);
    cr_assert_eq(ordinals_of(&ordinals, text_of("b"), other), 1);
    cr_assert_eq(ordinals_of(&ordinals, text_of("a"), key), 1);
    cr_assert_eq(ordinals_of(&ordinals, text_of("a"), third), 3);
    cr_assert_eq(ordinals_of(&ordinals, text_of("a"), other), 2);
    cr_assert_eq(ordinals_of(&ordinals, (struct text){0}, other), 0);
    ordinals_finish(&ordinals);
}
