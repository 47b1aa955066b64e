#include <criterion/criterion.h>

#include "daemon/resolve/arch.h"
#include "daemon/resolve/registers.h"
#include "tests/unit/resolve/fixture.h"

/* The upper ends of the classes, and what one thread may have in them, where there are four partitions. */
static const struct {
    unsigned up_to, registers;
} classes[] = {{256, 255}, {384, 168}, {512, 128}, {640, 96}, {768, 80}, {896, 72}, {1024, 64}};

static const unsigned four_partitions[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

Test(registers, B2_3_register_class)
{
    for (size_t a = 0; a < ARRAY_SIZE(four_partitions); a++) {
        size_t class = 0;
        for (unsigned threads = 1; threads <= BLOCK_THREADS; threads++) {
            class += threads > classes[class].up_to;
            cr_expect_eq(register_class(four_partitions[a], threads), classes[class].registers, "sm_%u, %u threads: %u",
                         four_partitions[a], threads, register_class(four_partitions[a], threads));
        }
    }
}

Test(registers, B2_3_one_block_stays_resident)
{
    /* By the definition: warps spread evenly over partitions, registers in units of 256 per warp. */
    for (unsigned capability = 50; capability <= 130; capability++) {
        const struct arch *arch = arch_find(capability);
        for (unsigned threads = 1; threads <= BLOCK_THREADS; threads++) {
            unsigned class = register_class(capability, threads);
            unsigned warps = (threads + 31) / 32, there = (warps + arch->partitions - 1) / arch->partitions;
            unsigned share = arch->registers / arch->partitions;
            cr_expect_leq((class * 32 + 255) / 256 * 256 * there, share, "sm_%u, %u threads", capability, threads);
            if (class < REGISTER_MAX)
                cr_expect_gt(((class + 1) * 32 + 255) / 256 * 256 * there, share, "sm_%u, %u threads", capability,
                             threads);
        }
    }
}

Test(registers, B2_3_two_partitions)
{
    cr_expect_eq(register_class(60, 256), 255);
    cr_expect_eq(register_class(60, 288), 200, "9 warps on two partitions: 5 on the fuller one");
    cr_expect_eq(register_class(60, 1024), 64);
}

Test(registers, B2_3_half_the_registers)
{
    cr_expect_eq(register_class(53, 128), 255);
    cr_expect_eq(register_class(53, 256), 128);
    cr_expect_eq(register_class(53, 1024), 32);
}

Test(registers, B2_3_unknown_architecture_uses_the_row_below)
{
    cr_expect_eq(arch_find(121)->capability, 121);
    cr_expect_eq(arch_find(999)->capability, 121);
    cr_expect_eq(arch_find(72)->capability, 70);
    cr_expect_eq(arch_find(35)->capability, 50);
}

Test(registers, B2_3_limit_is_the_smaller)
{
    static const struct {
        unsigned block, given, limit;
    } cases[] = {
        {0, 0, 0},     {0, 255, 0},   {0, 254, 254},   {0, 1, 1},       {256, 0, 0},     {256, 255, 0},
        {256, 64, 64}, {512, 0, 128}, {512, 255, 128}, {512, 129, 128}, {512, 127, 127}, {1024, 0, 64},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        cr_expect_eq(register_limit(90, cases[i].block, cases[i].given), cases[i].limit, "case %zu: %u", i,
                     register_limit(90, cases[i].block, cases[i].given));
}
