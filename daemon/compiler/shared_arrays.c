#include "daemon/compiler/shared_arrays.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preamble/host/abi.h"

static bool lies_in(size_t size, uint64_t at, uint64_t length)
{
    return at <= size && length <= size - at;
}

static int malformed(struct error *error)
{
    return error_set(error, STATUS_INTERNAL, "the host compiler's object is no ELF file that can be read");
}

static const Elf64_Shdr *section(const uint8_t *object, const Elf64_Ehdr *header, size_t i)
{
    return (const Elf64_Shdr *)(const void *)(object + header->e_shoff) + i;
}

/* The symbol table and its names. NULL symbols: it has none. */
struct symbols {
    const Elf64_Sym *at;
    size_t n;
    const char *names;
    size_t names_size;
};

static int find_symbols(const uint8_t *object, size_t size, struct symbols *ret, struct error *error)
{
    const Elf64_Ehdr *header = (const void *)object;
    *ret = (struct symbols){0};
    if (size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shoff % _Alignof(Elf64_Shdr) != 0 ||
        !lies_in(size, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
        return malformed(error);
    for (size_t i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *table = section(object, header, i);
        if (table->sh_type != SHT_SYMTAB)
            continue;
        if (table->sh_link >= header->e_shnum || !lies_in(size, table->sh_offset, table->sh_size) ||
            table->sh_offset % _Alignof(Elf64_Sym) != 0)
            return malformed(error);
        const Elf64_Shdr *names = section(object, header, table->sh_link);
        if (!lies_in(size, names->sh_offset, names->sh_size) || names->sh_size == 0 ||
            object[names->sh_offset + names->sh_size - 1] != '\0')
            return malformed(error);
        *ret = (struct symbols){
            .at = (const void *)(object + table->sh_offset),
            .n = table->sh_size / sizeof(Elf64_Sym),
            .names = (const char *)object + names->sh_offset,
            .names_size = names->sh_size,
        };
        return 0;
    }
    return 0;
}

static bool is_shared_array(const struct symbols *symbols, size_t i)
{
    const Elf64_Sym *symbol = &symbols->at[i];
    return symbol->st_shndx == SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_TLS &&
           symbol->st_name < symbols->names_size && symbols->names[symbol->st_name];
}

int shared_arrays_define(const void *object, size_t size, char **ret, size_t *ret_size, struct error *error)
{
    struct symbols symbols;
    size_t n = 0;
    if (find_symbols(object, size, &symbols, error) < 0)
        return -1;
    FILE *out = open_memstream(ret, ret_size);
    if (!out)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the shared arrays");
    for (size_t i = 0; i < symbols.n; i++) {
        if (!is_shared_array(&symbols, i))
            continue;
        const char *name = symbols.names + symbols.at[i].st_name;
        if (n++ == 0)
            fprintf(out, "\t.section .tbss,\"awT\",@nobits\n\t.balign %d\n", FUSIOND_HOST_DYNAMIC_ALIGNMENT);
        fprintf(out, "\t.globl %s\n\t.hidden %s\n\t.type %s, @object\n\t.size %s, %d\n%s:\n", name, name, name, name,
                FUSIOND_HOST_DYNAMIC_BYTES, name);
    }
    if (n > 0)
        fprintf(out, "\t.zero %d\n\t.section .note.GNU-stack,\"\",@progbits\n", FUSIOND_HOST_DYNAMIC_BYTES);
    if (fclose(out) == 0)
        return 0;
    free(*ret);
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the shared arrays");
}
