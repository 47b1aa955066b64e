#include "daemon/compiler/ptxas_report.h"

#include <string.h>

#include "daemon/compiler/compile_log.h"

/* Numbers above this are no sizes; the message's own limit. */
#define NUMBER_MAX 0xffffffffu

static const char *find(struct text line, const char *what)
{
    return memmem(line.at, line.size, what, strlen(what));
}

/* The name after `label`, to the end of the line or the closing quote. */
static bool name_after(struct text line, const char *label, struct text *ret)
{
    const char *at = find(line, label);
    if (at == NULL)
        return false;
    at += strlen(label);
    size_t size = (size_t)(line.at + line.size - at);
    size_t n = 0;
    while (n < size && at[n] != '\'' && at[n] != ' ')
        n++;
    *ret = (struct text){at, n};
    return true;
}

/* The decimal number that ends right before `unit`, which starts with a space. */
static bool number_before(struct text line, const char *unit, const char **ret_end, uint64_t *ret)
{
    const char *at = find(line, unit);
    if (at == NULL)
        return false;
    *ret_end = at + strlen(unit);
    const char *start = at;
    while (start > line.at && start[-1] >= '0' && start[-1] <= '9')
        start--;
    if (start == at)
        return false;
    uint64_t value = 0;
    for (; start < at; start++) {
        value = value * 10 + (uint64_t)(*start - '0');
        if (value > NUMBER_MAX)
            return false;
    }
    *ret = value;
    return true;
}

static void set(struct text line, const char *unit, uint64_t *ret, bool *ret_has)
{
    const char *end;
    if (number_before(line, unit, &end, ret))
        *ret_has = true;
}

/* Constant memory is given per bank: "368 bytes cmem[0], 8 bytes cmem[2]". */
static uint64_t sum_constant_memory(struct text line)
{
    uint64_t sum = 0, value;
    const char *end;
    while (find(line, " bytes cmem[") != NULL) {
        if (number_before(line, " bytes cmem[", &end, &value) && sum + value <= NUMBER_MAX)
            sum += value;
        line = (struct text){end, (size_t)(line.at + line.size - end)};
    }
    return sum;
}

static void read_properties(struct text line, struct kernel_entry *entry)
{
    set(line, " bytes stack frame", &entry->stack_frame, &entry->has_stack_frame);
    set(line, " bytes spill stores", &entry->spill_stores, &entry->has_spill_stores);
    set(line, " bytes spill loads", &entry->spill_loads, &entry->has_spill_loads);
}

static void read_used(struct text line, struct kernel_entry *entry)
{
    uint64_t registers;
    const char *end;
    if (!number_before(line, " registers", &end, &registers) || registers > 1024)
        return;
    entry->registers = registers;
    entry->has_registers = true;
    /* Left out when it is 0. */
    entry->shared_memory = 0;
    entry->has_shared_memory = true;
    set(line, " bytes smem", &entry->shared_memory, &entry->has_shared_memory);
    set(line, " bytes lmem", &entry->local_memory, &entry->has_local_memory);
    /* Not reported for sm_90 and newer, whatever it is. */
    entry->has_constant_memory = find(line, " bytes cmem[") != NULL;
    entry->constant_memory = sum_constant_memory(line);
}

void ptxas_report(struct text log, struct kernel_entry *entries, size_t n_entries)
{
    struct text line, name, current = {0};
    while (log_next_line(&log, &line)) {
        if (line.size < 5 || memcmp(line.at, "ptxas", 5) != 0) {
            /* Older releases print the sizes of a function on an indented line without the tool's name. */
            if (line.size == 0 || line.at[0] != ' ' || find(line, " bytes stack frame") == NULL)
                continue;
        }
        if (name_after(line, "Compiling entry function '", &name) ||
            name_after(line, "Function properties for ", &name)) {
            current = name;
            continue;
        }
        bool properties = find(line, " bytes stack frame") != NULL;
        bool used = find(line, ": Used ") != NULL;
        if (!properties && !used)
            continue;
        for (size_t i = 0; i < n_entries; i++) {
            if (current.size != entries[i].lowered.size || current.size == 0 ||
                memcmp(current.at, entries[i].lowered.at, current.size) != 0)
                continue;
            if (properties)
                read_properties(line, &entries[i]);
            else
                read_used(line, &entries[i]);
        }
    }
}
