#include "daemon/compiler/code_sections.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>

/* An image with three sections: names, code, a note. */
struct image {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    char names[32];
    char code[8];
    char note[8];
};

static struct image make(const char *code, const char *note)
{
    static const char names[] = "\0.text.k\0.note\0.names";
    struct image image = {0};
    memcpy(image.header.e_ident, ELFMAG, SELFMAG);
    image.header.e_shoff = offsetof(struct image, sections);
    image.header.e_shnum = 3;
    image.header.e_shstrndx = 0;
    memcpy(image.names, names, sizeof names);
    memcpy(image.code, code, strlen(code));
    memcpy(image.note, note, strlen(note));
    image.sections[0] = (Elf64_Shdr){.sh_name = 15,
                                     .sh_type = SHT_STRTAB,
                                     .sh_offset = offsetof(struct image, names),
                                     .sh_size = sizeof image.names};
    image.sections[1] = (Elf64_Shdr){
        .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = offsetof(struct image, code), .sh_size = sizeof image.code};
    image.sections[2] = (Elf64_Shdr){
        .sh_name = 9, .sh_type = SHT_PROGBITS, .sh_offset = offsetof(struct image, note), .sh_size = sizeof image.note};
    return image;
}

static struct bytes bytes_of(const struct image *image)
{
    return (struct bytes){(const uint8_t *)image, sizeof *image};
}

static bool equal(struct bytes a, struct bytes b)
{
    uint8_t digests[2][DIGEST_SIZE];
    struct error error = {0};
    cr_assert(code_sections_digest(a, digests[0], &error) == 0, "%s", error.text);
    cr_assert(code_sections_digest(b, digests[1], &error) == 0, "%s", error.text);
    return memcmp(digests[0], digests[1], DIGEST_SIZE) == 0;
}

Test(code_sections, code_counts_and_notes_do_not)
{
    struct image a = make("code", "one"), b = make("code", "two"), c = make("CODE", "one");
    cr_expect(equal(bytes_of(&a), bytes_of(&b)));
    cr_expect_not(equal(bytes_of(&a), bytes_of(&c)));
    b.sections[1].sh_size--;
    cr_expect_not(equal(bytes_of(&a), bytes_of(&b)));
    b = a;
    b.sections[1].sh_name = 9; /* no code at all */
    cr_expect_not(equal(bytes_of(&a), bytes_of(&b)));
}

Test(code_sections, ptx_counts_as_a_whole)
{
    struct bytes a = {(const uint8_t *)".version 9.0\n", 13}, b = {(const uint8_t *)".version 9.1\n", 13};
    cr_expect(equal(a, a));
    cr_expect_not(equal(a, b));
}

static void expect_nonsense(struct bytes image)
{
    uint8_t digest[DIGEST_SIZE];
    struct error error = {0};
    cr_expect(code_sections_digest(image, digest, &error) < 0);
    cr_expect(error.code == STATUS_INTERNAL);
}

Test(code_sections, what_is_no_image)
{
    struct image image = make("code", "one"), broken;
    expect_nonsense((struct bytes){(const uint8_t *)"", 0});
    expect_nonsense((struct bytes){(const uint8_t *)"a\0b", 3});
    for (size_t size = SELFMAG + 1; size < offsetof(struct image, note) + 8; size++)
        expect_nonsense((struct bytes){(const uint8_t *)&image, size});
    broken = image, broken.header.e_shoff = UINT64_MAX - 8;
    expect_nonsense(bytes_of(&broken));
    broken = image, broken.header.e_shnum = 60000;
    expect_nonsense(bytes_of(&broken));
    broken = image, broken.header.e_shstrndx = 9;
    expect_nonsense(bytes_of(&broken));
    broken = image, broken.sections[1].sh_offset = UINT64_MAX;
    expect_nonsense(bytes_of(&broken));
    broken = image, broken.sections[2].sh_size = sizeof image;
    expect_nonsense(bytes_of(&broken));
    broken = image, broken.sections[0].sh_type = SHT_PROGBITS;
    expect_nonsense(bytes_of(&broken));
}
