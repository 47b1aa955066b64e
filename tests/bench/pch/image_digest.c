#include "tests/bench/pch/image_digest.h"

#include <elf.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

struct image {
    const char *at;
    size_t size;
    const Elf64_Shdr *sections;
    unsigned n_sections;
    const char *section_names;
};

static bool open_image(struct image *image, const char *at, size_t size)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)at;
    if (size < sizeof *header || memcmp(at, ELFMAG, SELFMAG) != 0 ||
        header->e_shoff + (uint64_t)header->e_shnum * sizeof(Elf64_Shdr) > size)
        return false;
    image->at = at;
    image->size = size;
    image->sections = (const Elf64_Shdr *)(const void *)(at + header->e_shoff);
    image->n_sections = header->e_shnum;
    image->section_names = at + image->sections[header->e_shstrndx].sh_offset;
    return true;
}

static const char *section_name(const struct image *image, unsigned i)
{
    return image->section_names + image->sections[i].sh_name;
}

/* Not looked at: notes, names, debug information and the option strings beside them. */
static bool is_code(const char *name)
{
    return strncmp(name, ".text.", 6) == 0;
}

static bool is_data(const char *name)
{
    return strncmp(name, ".nv.constant", 12) == 0 || strncmp(name, ".nv.global.init", 15) == 0;
}

static uint64_t digest_of(const char *name, const void *bytes, size_t size)
{
    uint64_t digest;
    uint8_t out[crypto_generichash_BYTES_MIN];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof out);
    crypto_generichash_update(&state, (const uint8_t *)name, strlen(name) + 1);
    crypto_generichash_update(&state, bytes, size);
    crypto_generichash_final(&state, out, sizeof out);
    memcpy(&digest, out, sizeof digest);
    return digest;
}

uint64_t code_digest(const char *at, size_t size)
{
    struct image image;
    uint64_t digest = 0;
    if (!open_image(&image, at, size))
        return 0;
    for (unsigned i = 0; i < image.n_sections; i++) {
        const Elf64_Shdr *section = &image.sections[i];
        if (section->sh_type != SHT_NOBITS && is_code(section_name(&image, i)))
            digest = digest * 31 + digest_of(section_name(&image, i), image.at + section->sh_offset, section->sh_size);
    }
    return digest;
}

static uint64_t symbols_digest(const struct image *image, const Elf64_Shdr *table)
{
    uint64_t digest = 0;
    const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(image->at + table->sh_offset);
    const char *names = image->at + image->sections[table->sh_link].sh_offset;
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        const Elf64_Sym *symbol = &symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_shndx >= image->n_sections)
            continue;
        const Elf64_Shdr *home = &image->sections[symbol->st_shndx];
        if (home->sh_type != SHT_NOBITS && is_data(section_name(image, symbol->st_shndx)) &&
            symbol->st_value + symbol->st_size <= home->sh_size)
            digest +=
                digest_of(names + symbol->st_name, image->at + home->sh_offset + symbol->st_value, symbol->st_size);
    }
    return digest;
}

uint64_t variables_digest(const char *at, size_t size)
{
    struct image image;
    uint64_t digest = 1;
    if (!open_image(&image, at, size))
        return 0;
    for (unsigned i = 0; i < image.n_sections; i++)
        if (image.sections[i].sh_type == SHT_SYMTAB && image.sections[i].sh_link < image.n_sections)
            digest += symbols_digest(&image, &image.sections[i]);
    return digest;
}
