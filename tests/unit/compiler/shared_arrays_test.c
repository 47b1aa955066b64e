/* Symbol tables of object files, made by hand: whole ones and broken ones. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/compiler/shared_arrays.h"

/* An object with one symbol table and its names. */
struct object {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    Elf64_Sym symbols[6];
    char names[64];
};

static const char names[] = "\0array\0other\0defined\0function";

static void object_init(struct object *object)
{
    *object = (struct object){
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_REL,
                   .e_machine = EM_X86_64,
                   .e_shoff = offsetof(struct object, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 3},
        .sections = {{0},
                     {.sh_type = SHT_SYMTAB,
                      .sh_offset = offsetof(struct object, symbols),
                      .sh_size = sizeof object->symbols,
                      .sh_link = 2,
                      .sh_entsize = sizeof(Elf64_Sym)},
                     {.sh_type = SHT_STRTAB,
                      .sh_offset = offsetof(struct object, names),
                      .sh_size = sizeof object->names}},
        .symbols = {{0},
                    {.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_TLS), .st_shndx = SHN_UNDEF},
                    {.st_name = 7, .st_info = ELF64_ST_INFO(STB_WEAK, STT_TLS), .st_shndx = SHN_UNDEF},
                    {.st_name = 13, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_TLS), .st_shndx = 5},
                    {.st_name = 21, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), .st_shndx = SHN_UNDEF}},
    };
    memcpy(object->names, names, sizeof names);
}

/* The assembly, in *ret to be freed; -1: refused. */
static int define(const void *bytes, size_t size, char **ret)
{
    struct error error = {0};
    size_t ret_size;
    int status = shared_arrays_define(bytes, size, ret, &ret_size, &error);
    if (status < 0)
        cr_assert(error.code == STATUS_INTERNAL && error.text[0], "%d: %s", error.code, error.text);
    return status;
}

/* Undefined thread-local symbols are arrays, and all begin where the one block begins. */
Test(shared_arrays, all_are_one_block)
{
    struct object object;
    char *assembly;
    object_init(&object);
    cr_assert(define(&object, sizeof object, &assembly) == 0);
    const char *array = strstr(assembly, "\narray:\n"), *other = strstr(assembly, "\nother:\n");
    const char *block = strstr(assembly, "\t.zero 232448\n");
    cr_assert(array && other && block && array < block && other < block, "%s", assembly);
    cr_assert(strstr(block + 8, ".zero") == NULL && strstr(assembly, "\t.balign 128\n") < array);
    cr_assert(strstr(assembly, "\t.hidden array\n") && strstr(assembly, "\t.type array, @object\n"));
    cr_assert(!strstr(assembly, "defined") && !strstr(assembly, "function"), "%s", assembly);
    free(assembly);
}

Test(shared_arrays, none)
{
    struct object object;
    char *assembly;
    object_init(&object);
    object.sections[1].sh_type = SHT_PROGBITS;
    cr_assert(define(&object, sizeof object, &assembly) == 0);
    cr_assert_str_eq(assembly, "");
    free(assembly);
}

/* Whatever is wrong with the file is an error, and nothing outside of it is read (AddressSanitizer watches). */
Test(shared_arrays, F11_broken_files)
{
    struct object whole, broken;
    char *assembly;
    object_init(&whole);
    for (size_t size = 0; size < sizeof whole; size++) {
        char *bytes = malloc(size + 1);
        memcpy(bytes, &whole, size);
        cr_assert(define(bytes, size, &assembly) < 0, "%zu bytes of %zu were taken", size, sizeof whole);
        free(bytes);
    }
    broken = whole, broken.header.e_ident[0] = 'X';
    cr_assert(define(&broken, sizeof broken, &assembly) < 0);
    broken = whole, broken.header.e_shoff = UINT64_MAX - 7;
    cr_assert(define(&broken, sizeof broken, &assembly) < 0);
    broken = whole, broken.header.e_shoff = 1;
    cr_assert(define(&broken, sizeof broken, &assembly) < 0);
    broken = whole, broken.header.e_shnum = 60000;
    cr_assert(define(&broken, sizeof broken, &assembly) < 0);
    broken = whole, broken.sections[1].sh_link = 3;
    cr_assert(define(&broken, sizeof broken, &assembly) < 0);
    broken = whole, broken.sections[1].sh_size = UINT64_MAX;
    cr_assert(define(&broken, sizeof broken, &assembly) < 0);
    broken = whole, broken.sections[2].sh_offset = UINT64_MAX - 1;
    cr_assert(define(&broken, sizeof broken, &assembly) < 0);
    memset(broken.names, 'x', sizeof broken.names);
    broken.sections[2] = whole.sections[2];
    cr_assert(define(&broken, sizeof broken, &assembly) < 0, "names without an end");
    /* A name outside of the names is nobody's. */
    broken = whole, broken.symbols[1].st_name = 64;
    cr_assert(define(&broken, sizeof broken, &assembly) == 0);
    cr_assert(!strstr(assembly, "array") && strstr(assembly, "other"), "%s", assembly);
    free(assembly);
}
