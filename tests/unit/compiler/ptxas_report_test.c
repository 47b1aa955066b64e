/* The assembler's report, as NVRTC 13.0 and older releases print it. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/compiler/ptxas_report.h"

static const char report[] = "ptxas info    : 24 bytes gmem\n"
                             "ptxas info    : Compiling entry function '_ZN7fusiond1fIfLi4EEEvPT_' for 'sm_90a'\n"
                             "ptxas info    : Function properties for _ZN7fusiond1fIfLi4EEEvPT_\n"
                             "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                             "ptxas info    : Used 10 registers, used 1 barriers, 16 bytes smem\n"
                             "ptxas info    : Compile time = 5.484 ms\n"
                             "ptxas info    : Compiling entry function '_ZN7fusiond4callEPf' for 'sm_90a'\n"
                             "ptxas info    : Function properties for _ZN7fusiond4callEPf\n"
                             "ptxas         .     32 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
                             "ptxas info    : Used 18 registers, used 0 barriers, 32 bytes cumulative stack size\n"
                             "ptxas info    : Compile time = 10.253 ms\n"
                             "ptxas info    : Function properties for _ZN7fusiond1gEf\n"
                             "ptxas         .     99 bytes stack frame, 98 bytes spill stores, 97 bytes spill loads\n";

static struct kernel_entry entry(const char *lowered)
{
    return (struct kernel_entry){.name = text_of("k"), .lowered = text_of(lowered)};
}

Test(ptxas_report, each_entry_has_its_own)
{
    struct kernel_entry entries[] = {entry("_ZN7fusiond4callEPf"), entry("_ZN7fusiond1fIfLi4EEEvPT_")};
    ptxas_report(text_of(report), entries, 2);
    cr_assert(entries[0].has_registers && entries[0].registers == 18);
    cr_assert(entries[0].has_stack_frame && entries[0].stack_frame == 32);
    cr_assert(entries[0].has_spill_stores && entries[0].spill_stores == 8);
    cr_assert(entries[0].has_spill_loads && entries[0].spill_loads == 12);
    cr_assert(entries[0].has_shared_memory && entries[0].shared_memory == 0);
    cr_assert(!entries[0].has_constant_memory && !entries[0].has_local_memory);
    cr_assert(entries[1].registers == 10 && entries[1].shared_memory == 16 && entries[1].stack_frame == 0);
    cr_assert(entries[1].has_spill_stores && entries[1].spill_stores == 0);
}

Test(ptxas_report, older_form)
{
    struct kernel_entry entries[] = {entry("_Z1kPf")};
    ptxas_report(text_of("ptxas info    : 0 bytes gmem\n"
                         "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\n"
                         "ptxas info    : Function properties for _Z1kPf\n"
                         "    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
                         "ptxas info    : Used 32 registers, 4096 bytes smem, 368 bytes cmem[0], 12 bytes cmem[2], "
                         "20 bytes lmem\n"),
                 entries, 1);
    cr_assert(entries[0].registers == 32 && entries[0].shared_memory == 4096 && entries[0].stack_frame == 16);
    cr_assert(entries[0].constant_memory == 380 && entries[0].local_memory == 20);
    cr_assert(entries[0].spill_stores == 4 && entries[0].spill_loads == 8);
}

Test(ptxas_report, absent_text_is_no_error)
{
    struct kernel_entry entries[] = {entry("_Z1kPf"), entry("_Z1k")};
    ptxas_report(text_of(""), entries, 2);
    /* Another function, a prefix of its name, a truncated and an absurd line. */
    ptxas_report(text_of("ptxas info    : Used 99 registers\n"
                         "ptxas info    : Compiling entry function '_Z1kPfi' for 'sm_80'\n"
                         "ptxas info    : Used 99 registers\n"
                         "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_80'\n"
                         "ptxas info    : Used registers\n"
                         "ptxas info    : Used 99999999999999999999 registers\n"
                         "ptxas         .      bytes stack frame, 99999999999 bytes spill stores\n"
                         "ptxas info    : Compiling entry function '"),
                 entries, 2);
    for (int i = 0; i < 2; i++)
        cr_assert(!entries[i].has_registers && !entries[i].has_stack_frame && !entries[i].has_spill_stores &&
                  !entries[i].has_shared_memory);
}
