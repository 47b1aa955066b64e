/*
 * Code that is written to hurt the compiler, one piece after the other against one daemon, while somebody else works:
 * each gets an honest answer, nobody else notices, and afterwards everything is as before.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sandbox/under_asan.h"
#include "tests/integration/daemon/fixture.h"

#define DEADLINE_MS 1500

static struct daemon_process daemon_;
static struct base_line base;
static struct wire attacker, other;
static unsigned n_others;

static void setup(void)
{
    daemon_start_or_skip(&daemon_, &(struct daemon_options){.args = (const char *const[]){"--workers", "2", NULL}});
    base = base_line_take(&daemon_);
    wire_open(&attacker, daemon_.socket);
    wire_open(&other, daemon_.socket);
}

static void teardown(void)
{
    daemon_finish(&daemon_);
}

TestSuite(hostile, .init = setup, .fini = teardown, .timeout = 280);

/* ---- pieces ---- */

/* A program that is put together; large enough for all of them. */
struct piece {
    char *code;
    size_t size, room;
};

static void add(struct piece *piece, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(piece->code + piece->size, piece->room - piece->size, format, list);
    va_end(list);
    cr_assert(n >= 0 && piece->size + (size_t)n < piece->room);
    piece->size += (size_t)n;
}

static void repeat(struct piece *piece, const char *text, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        add(piece, "%s", text);
}

static const char *const plain_kernel = "extern \"C\" __global__ void k(int *p) { *p = 1; }\n";

static void endless_templates(struct piece *piece)
{
    add(piece, "template <int N> struct deeper { static const int value = deeper<N + 1>::value; };\n"
               "extern \"C\" __global__ void k(int *p) { *p = deeper<0>::value; }\n");
}

static void many_instantiations(struct piece *piece)
{
    add(piece, "template <int N, long A> struct tree { static const long value = tree<N - 1, A * 2>::value + "
               "tree<N - 1, A * 2 + 1>::value; };\n"
               "template <long A> struct tree<0, A> { static const long value = A; };\n"
               "extern \"C\" __global__ void k(long *p) { *p = tree<24, 1>::value; }\n");
}

static void endless_constant(struct piece *piece)
{
    add(piece, "constexpr int turn() { int i = 0; while (i >= 0) i = (i + 1) %% 7; return i; }\n"
               "extern \"C\" __global__ void k(int *p) { constexpr int i = turn(); *p = i; }\n");
}

static void doubling_macros(struct piece *piece)
{
    add(piece, "#define M0 + 1\n");
    for (unsigned i = 0; i < 28; i++)
        add(piece, "#define M%u M%u M%u\n", i + 1, i, i);
    add(piece, "extern \"C\" __global__ void k(int *p) { *p = 0 M28; }\n");
}

static void many_cases(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(int *p) { switch (*p) {\n");
    for (unsigned i = 0; i < 20000; i++)
        add(piece, "case %u: *p += %u; break;\n", i, i * 2654435761u);
    add(piece, "} }\n");
}

static void long_name(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(int *p) { int ");
    repeat(piece, "abcdefghijklmnop", 30000);
    add(piece, " = 1; *p = 1; }\n");
}

static void long_literal(struct piece *piece)
{
    add(piece, "__device__ const char text[] = \"");
    repeat(piece, "\\x41\\x42", 100000);
    add(piece, "\";\nextern \"C\" __global__ void k(char *p) { *p = text[*p]; }\n");
}

static void huge_local(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(int *p) { int a[1 << 28]; for (int i = 0; i < *p; i++) a[i] = i; "
               "*p = a[*p]; }\n");
}

static void nested_blocks(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(int *p) { ");
    repeat(piece, "{", 200000);
    repeat(piece, "}", 200000);
    add(piece, " }\n");
}

static void unrolled(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(float *p) { float x = *p;\n"
               "#pragma unroll\nfor (int i = 0; i < 4096; i++)\n"
               "#pragma unroll\nfor (int j = 0; j < 4096; j++) x = x * x + p[i ^ j];\n*p = x; }\n");
}

static void devices_as_headers(struct piece *piece)
{
    add(piece, "#include \"/dev/zero\"\n#include \"/dev/stdin\"\n#include </proc/self/mem>\n%s", plain_kernel);
}

static void itself_as_header(struct piece *piece)
{
    add(piece, "#include \"self.h\"\n%s", plain_kernel);
}

static void no_characters(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(int *p) { *p = ");
    for (unsigned i = 1; i < 32; i++)
        add(piece, "%c", i == '\n' ? ' ' : (char)i);
    add(piece, "; }\n");
}

static void unclosed(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(int *p) { *p = 1; R\"(\n");
    repeat(piece, "/* \" ' \\\n", 50000);
}

static void broken_assembly(struct piece *piece)
{
    add(piece, "extern \"C\" __global__ void k(int *p) { asm volatile(\"}}; .entry x() { trap; \" : : \"l\"(p)); }\n");
}

/* How it may end. A busy machine may not get to the limit before the deadline. */
enum { COMPILES = 1, REJECTED = 2, LIMITED = 4, LATE = 8 };

static const struct {
    const char *name;
    void (*write)(struct piece *piece);
    unsigned ends;
} pieces[] = {
    {"endless templates", endless_templates, REJECTED | LIMITED | LATE},
    {"many instantiations", many_instantiations, LIMITED | LATE},
    {"an endless constant", endless_constant, REJECTED | LIMITED | LATE},
    {"doubling macros", doubling_macros, LIMITED | LATE},
    {"many cases", many_cases, COMPILES | LIMITED | LATE},
    {"a long name", long_name, COMPILES | REJECTED | LATE},
    {"a long literal", long_literal, COMPILES | LATE},
    {"a huge local array", huge_local, COMPILES | REJECTED | LATE},
    {"nested blocks", nested_blocks, REJECTED | LIMITED | LATE},
    {"16 million steps unrolled", unrolled, COMPILES | LIMITED | LATE},
    {"devices as headers", devices_as_headers, REJECTED},
    {"itself as a header", itself_as_header, REJECTED | LATE},
    {"no characters", no_characters, REJECTED},
    {"what is never closed", unclosed, REJECTED | LATE},
    {"broken assembly", broken_assembly, REJECTED | LATE},
};
#define N_PIECES (sizeof pieces / sizeof pieces[0])

static unsigned end_of(enum status code)
{
    switch (code) {
    case STATUS_OK:
        return COMPILES;
    case STATUS_COMPILE_FAILED:
        return REJECTED;
    case STATUS_RESOURCE_LIMIT:
        return LIMITED;
    case STATUS_TIMEOUT:
        return LATE;
    default:
        return 0;
    }
}

/* ---- */

/* Somebody else: a hit and a compile. */
static void others_work(void)
{
    struct sample sample;
    cr_assert(get_kernel(&other, sample_kernel(&sample, 5000 + n_others)).outcome == OUTCOME_COMPILED);
    cr_assert(get_kernel(&other, &sample.request).outcome == OUTCOME_HIT_MEMORY);
    n_others++;
}

static void attack(size_t i)
{
    struct sample sample;
    struct failure failure = {0};
    struct header self = {.name = TEXT_OF("self.h"), .bytes = {(const uint8_t *)"#include \"self.h\"\n", 18}};
    struct piece piece = {malloc(4 << 20), 0, 4 << 20};
    cr_assert(piece.code);
    pieces[i].write(&piece);
    struct compile_request *request = sample_code(&sample, piece.code, "k");
    request->deadline_ms = DEADLINE_MS;
    request->has_deadline_ms = true;
    sample.fusion.headers = &self;
    sample.fusion.n_headers = 1;
    uint32_t id = wire_ask(&attacker, METHOD_COMPILE, request);
    others_work();
    enum status code = wire_answer(&attacker, id, METHOD_COMPILE, NULL, &failure);
    cr_expect(end_of(code) & pieces[i].ends, "%s: %s: %s", pieces[i].name, status_name(code),
              failure.text.at ? failure.text.at : "");
    cr_expect(code == STATUS_OK || !failure.retryable, "%s", pieces[i].name);
    cr_expect(failure.log.size < 2 * LIMIT_LOG && failure.n_diagnostics <= LIMIT_DIAGNOSTICS, "%s", pieces[i].name);
    free(piece.code);
}

Test(hostile, F3_F4_F6_code_that_is_written_to_hurt)
{
    if (UNDER_ASAN)
        cr_skip("memory and stack are not limited under AddressSanitizer");
    others_work();
    for (size_t i = 0; i < N_PIECES; i++)
        attack(i);
    struct stats_reply stats = wire_stats(daemon_.socket);
    cr_expect(stats.worker_retries_total == 0, "no end was unexplained");
    cr_expect(stats.worker_crashes_total == stats.worker_limits_total, "every worker that died met a limit");
    cr_expect(stats.compiles_failed_total + stats.compiles_total == N_PIECES + n_others);
    cr_expect(daemon_log_count(&daemon_, " compile result=") == N_PIECES + n_others, "one line each: %zu",
              daemon_log_count(&daemon_, " compile result="));
    others_work();
    wire_close(&attacker);
    wire_close(&other);
    base_line_check(&base);
    daemon_stop_in_order(&daemon_);
}
