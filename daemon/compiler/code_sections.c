#include "daemon/compiler/code_sections.h"

#include <elf.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#define CODE ".text."

static bool lies_within(uint64_t at, uint64_t size, size_t whole)
{
    return at <= whole && size <= whole - at;
}

/* The i-th section's description. false: it, or what it describes, is not within the image. */
static bool read_section(struct bytes image, const Elf64_Ehdr *header, unsigned i, Elf64_Shdr *ret)
{
    uint64_t at = header->e_shoff + (uint64_t)i * sizeof *ret;
    if (header->e_shoff > image.size || i >= header->e_shnum || !lies_within(at, sizeof *ret, image.size))
        return false;
    memcpy(ret, image.at + at, sizeof *ret);
    return ret->sh_type == SHT_NOBITS || lies_within(ret->sh_offset, ret->sh_size, image.size);
}

static bool is_code(struct bytes image, const Elf64_Shdr *names, const Elf64_Shdr *section)
{
    size_t size = sizeof CODE - 1;
    return section->sh_type == SHT_PROGBITS && lies_within(section->sh_name, size, names->sh_size) &&
           memcmp(image.at + names->sh_offset + section->sh_name, CODE, size) == 0;
}

static int hash_sections(struct bytes image, crypto_generichash_state *state)
{
    Elf64_Ehdr header;
    Elf64_Shdr names, section;
    unsigned n = 0;
    memcpy(&header, image.at, sizeof header);
    if (!read_section(image, &header, header.e_shstrndx, &names) || names.sh_type != SHT_STRTAB)
        return -1;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        if (!read_section(image, &header, i, &section))
            return -1;
        if (!is_code(image, &names, &section))
            continue;
        crypto_generichash_update(state, (const uint8_t *)&section.sh_size, sizeof section.sh_size);
        crypto_generichash_update(state, image.at + section.sh_offset, section.sh_size);
        n++;
    }
    crypto_generichash_update(state, (const uint8_t *)&n, sizeof n);
    return 0;
}

int code_sections_digest(struct bytes image, uint8_t ret[DIGEST_SIZE], struct error *error)
{
    crypto_generichash_state state;
    if (sodium_init() < 0)
        return error_set(error, STATUS_INTERNAL, "libsodium cannot be initialised");
    crypto_generichash_init(&state, NULL, 0, DIGEST_SIZE);
    bool elf = image.size >= sizeof(Elf64_Ehdr) && memcmp(image.at, ELFMAG, SELFMAG) == 0;
    if (!elf && (image.size == 0 || memchr(image.at, '\0', image.size)))
        return error_set(error, STATUS_INTERNAL, "an image of %zu bytes is neither a cubin nor PTX", image.size);
    if (!elf)
        crypto_generichash_update(&state, image.at, image.size);
    else if (hash_sections(image, &state) < 0)
        return error_set(error, STATUS_INTERNAL, "the sections of a cubin of %zu bytes make no sense", image.size);
    crypto_generichash_final(&state, ret, DIGEST_SIZE);
    return 0;
}
