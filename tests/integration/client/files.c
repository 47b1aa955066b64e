#include "tests/integration/client/files.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void file_write(const char *path, const char *text, mode_t mode)
{
    FILE *out = fopen(path, "we");
    cr_assert_not_null(out, "%s", path);
    fputs(text, out);
    cr_assert_eq(fclose(out), 0);
    cr_assert_eq(chmod(path, mode), 0);
}

char *file_read(const char *path)
{
    FILE *in = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    if (!in)
        return NULL;
    FILE *out = open_memstream(&text, &size);
    for (int c = fgetc(in); c != EOF; c = fgetc(in))
        fputc(c, out);
    fclose(out);
    fclose(in);
    return text;
}

char *text_replace(const char *text, const char *from, const char *to)
{
    char *ret;
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "\"%s\" is not there", from);
    cr_assert_gt(asprintf(&ret, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), 0);
    return ret;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

void folder_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
