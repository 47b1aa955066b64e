#include "daemon/resolve/image_names.h"

#include <elf.h>
#include <string.h>

#include "daemon/resolve/ptx_names.h"
#include "daemon/resolve/zone.h"

/* A cubin: an ELF file of 64 bits, whose sections lie within it. */
struct cubin {
    char *at;
    size_t size;
    const Elf64_Shdr *sections;
    size_t n_sections;
    size_t names;  /* which section has the sections' names */
    size_t placed; /* how many placeholders were replaced */
};

size_t image_names_count(struct bytes image)
{
    const char *at = (const char *)image.at, *end = at + image.size;
    size_t n = 0, index;
    for (; image.at && (at = placeholder_find(at, end, &index)); at += PLACEHOLDER_SIZE)
        n++;
    return n;
}

/* ---- the file ---- */

static int broken(struct error *error)
{
    return error_set(error, STATUS_INTERNAL, "names: the image is no ELF file whose sections lie within it");
}

static int open_cubin(struct cubin *cubin, struct error *error)
{
    Elf64_Ehdr header;
    size_t table;
    if (cubin->size < sizeof header)
        return broken(error);
    memcpy(&header, cubin->at, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0 || header.e_shstrndx >= header.e_shnum)
        return broken(error);
    table = header.e_shnum * sizeof(Elf64_Shdr);
    if (header.e_shoff > cubin->size || cubin->size - header.e_shoff < table ||
        header.e_shoff % _Alignof(Elf64_Shdr) != 0)
        return broken(error);
    cubin->sections = (const Elf64_Shdr *)(const void *)(cubin->at + header.e_shoff);
    cubin->n_sections = header.e_shnum;
    cubin->names = header.e_shstrndx;
    for (size_t i = 0; i < cubin->n_sections; i++) {
        const Elf64_Shdr *section = &cubin->sections[i];
        if (section->sh_type != SHT_NOBITS &&
            (section->sh_offset > cubin->size || section->sh_size > cubin->size - section->sh_offset))
            return broken(error);
    }
    return 0;
}

static struct text section_bytes(const struct cubin *cubin, const Elf64_Shdr *section)
{
    return section->sh_type == SHT_NOBITS ? (struct text){"", 0}
                                          : (struct text){cubin->at + section->sh_offset, section->sh_size};
}

/* Whether the section's name ends so: sections of newer architectures have the names of older ones with a prefix. */
static bool is_called(const struct cubin *cubin, const Elf64_Shdr *section, const char *end)
{
    struct text names = section_bytes(cubin, &cubin->sections[cubin->names]);
    if (section->sh_name >= names.size)
        return false;
    size_t size = strnlen(names.at + section->sh_name, names.size - section->sh_name), wanted = strlen(end);
    return size >= wanted && memcmp(names.at + section->sh_name + size - wanted, end, wanted) == 0;
}

/* One whose names are in a section. */
static bool is_symbol_table(const struct cubin *cubin, const Elf64_Shdr *section)
{
    return (section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM) && section->sh_link < cubin->n_sections &&
           section->sh_entsize >= sizeof(Elf64_Sym);
}

/* ---- who refers to strings ---- */

/* Whether the string that holds the offset has a placeholder in front of it: then what begins there would move. */
static bool would_move(struct text strings, uint64_t offset)
{
    size_t index;
    if (!strings.at || offset == 0 || offset >= strings.size)
        return false;
    const char *at = strings.at + offset;
    const char *before = memrchr(strings.at, '\0', (size_t)offset);
    const char *begin = before ? before + 1 : strings.at;
    return begin < at && placeholder_find(begin, at, &index) != NULL;
}

static bool any_would_move(const struct cubin *cubin)
{
    struct text names = section_bytes(cubin, &cubin->sections[cubin->names]);
    for (size_t i = 0; i < cubin->n_sections; i++) {
        const Elf64_Shdr *section = &cubin->sections[i];
        if (would_move(names, section->sh_name))
            return true;
        if (!is_symbol_table(cubin, section))
            continue;
        struct text strings = section_bytes(cubin, &cubin->sections[section->sh_link]);
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section->sh_size; at += section->sh_entsize) {
            Elf64_Sym symbol;
            memcpy(&symbol, cubin->at + section->sh_offset + at, sizeof symbol);
            if (would_move(strings, symbol.st_name))
                return true;
        }
    }
    return false;
}

/* ---- replacing ---- */

/* Every string of the section that has placeholders. */
static void put_strings(struct cubin *cubin, struct entry_names names, const Elf64_Shdr *section, char padding)
{
    char *at = cubin->at + section->sh_offset, *end = at + section->sh_size;
    const char *found;
    size_t index;
    while ((found = placeholder_find(at, end, &index))) {
        const char *before = memrchr(at, '\0', (size_t)(found - at));
        char *begin = before ? at + (before - at) + 1 : at;
        size_t size = strnlen(begin, (size_t)(end - begin));
        struct text string = {begin, size};
        cubin->placed += image_names_count((struct bytes){(const uint8_t *)begin, size});
        size_t written = entry_names_write(names, string, begin);
        memset(begin + written, padding, size - written);
        at = begin + size;
    }
}

/* The symbol's name; absent when it has none within the table. */
static struct text symbol_name(const char *file, const Elf64_Shdr *table, const Elf64_Shdr *strings, size_t index,
                               Elf64_Sym *ret)
{
    memcpy(ret, file + table->sh_offset + index * table->sh_entsize, sizeof *ret);
    if (ret->st_name == 0 || ret->st_name >= strings->sh_size)
        return (struct text){0};
    const char *at = file + strings->sh_offset + ret->st_name;
    return (struct text){at, strnlen(at, strings->sh_size - ret->st_name)};
}

static bool is_text(struct text a, struct text b)
{
    return a.at && b.at && a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/* Whether some symbol has got the name of another one that is not its own. */
static bool names_meet(const struct cubin *cubin, const char *stored, const Elf64_Shdr *table)
{
    const Elf64_Shdr *strings = &cubin->sections[table->sh_link];
    size_t n = table->sh_size / table->sh_entsize, ignored;
    Elf64_Sym a, b;
    for (size_t i = 0; i < n; i++) {
        struct text before = symbol_name(stored, table, strings, i, &a), now;
        if (!before.at || !placeholder_find(before.at, before.at + before.size, &ignored))
            continue;
        now = symbol_name(cubin->at, table, strings, i, &a);
        for (size_t j = 0; j < n; j++)
            if (is_text(now, symbol_name(cubin->at, table, strings, j, &b)) &&
                !is_text(before, symbol_name(stored, table, strings, j, &b)))
                return true;
    }
    return false;
}

static int put_cubin(struct entry_names names, struct cubin *cubin, struct bytes stored, struct error *error)
{
    if (open_cubin(cubin, error) < 0)
        return -1;
    if (any_would_move(cubin))
        return error_set(error, STATUS_INTERNAL, "names: a string of the image begins within a kernel's name");
    /* Sections may share their bytes; what is replaced is not found again. The table of the sections' names comes
     * last, as long as it is asked for them. */
    for (size_t i = 0; i < cubin->n_sections; i++) {
        const Elf64_Shdr *section = &cubin->sections[i];
        if (section->sh_type == SHT_NOBITS || i == cubin->names)
            continue;
        if (is_called(cubin, section, "nv_debug_ptx_txt"))
            put_strings(cubin, names, section, ' ');
        else if (section->sh_type == SHT_STRTAB || is_called(cubin, section, ".debug_str"))
            put_strings(cubin, names, section, '\0');
    }
    put_strings(cubin, names, &cubin->sections[cubin->names], '\0');
    for (size_t i = 0; i < cubin->n_sections; i++)
        if (is_symbol_table(cubin, &cubin->sections[i]) &&
            names_meet(cubin, (const char *)stored.at, &cubin->sections[i]))
            return error_set(error, STATUS_INTERNAL, "names: the image has another symbol with a kernel's name");
    return 0;
}

/* A name that looks like a placeholder would be replaced again. */
static bool names_are_fit(struct entry_names names)
{
    return !names.size || !memmem(names.at, names.size, PLACEHOLDER_STEM, sizeof PLACEHOLDER_STEM - 1);
}

int image_names_put(struct entry_names names, enum image_kind kind, struct bytes image, msgpack_zone *zone,
                    struct bytes *ret, struct error *error)
{
    struct cubin cubin = {.size = image.size};
    size_t places = image_names_count(image);
    if (!names_are_fit(names))
        return error_set(error, STATUS_INTERNAL, "names: a kernel has a name that begins like a placeholder");
    if (places == 0) {
        *ret = image;
        return 0;
    }
    if (kind == IMAGE_KIND_PTX)
        return ptx_names_put(names, image, zone, ret, error);
    if (!(cubin.at = zone_array(zone, image.size, 1, error)))
        return -1;
    memcpy(cubin.at, image.at, image.size);
    if (put_cubin(names, &cubin, image, error) < 0)
        return -1;
    if (cubin.placed != places)
        return error_set(error, STATUS_INTERNAL, "names: %zu of the image's %zu placeholders are in tables of strings",
                         cubin.placed, places);
    *ret = (struct bytes){(const uint8_t *)cubin.at, image.size};
    return 0;
}
