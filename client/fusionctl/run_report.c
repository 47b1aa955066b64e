#include "client/fusionctl/run_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/fusionctl/print.h"

static const char *const check_names[N_CHECKS] = {
    [CHECK_REFERENCE] = "reference", [CHECK_FILES] = "files", [CHECK_DEVICE] = "device"};

struct run_verdict run_report_verdict(const struct run_report *report)
{
    struct run_verdict all = {0};
    for (int i = 0; i < N_CHECKS; i++) {
        const struct run_verdict *one = &report->verdicts[i];
        all.checked += one->checked;
        if (one->mismatches && !all.mismatches)
            memcpy(all.first, one->first, sizeof all.first);
        all.mismatches += one->mismatches;
        if (one->worst > all.worst || isnan(one->worst))
            all.worst = one->worst;
    }
    return all;
}

static bool is_checked(const struct run_report *report)
{
    return report->done[CHECK_REFERENCE] || report->done[CHECK_FILES] || report->done[CHECK_DEVICE];
}

/* GB/s of a launch that moves every tensor once. */
static double rate_of(const struct run_report *report)
{
    return report->launch_ns ? (double)report->bytes / (double)report->launch_ns : 0.0;
}

static void print_tensors(const struct run_call *call)
{
    for (size_t i = 0; i < call->n; i++) {
        const struct param *param = &call->message->params[i];
        const struct shape *shape = &call->call.shapes[i];
        if (param->kind == PARAM_KIND_SCALAR)
            continue;
        printf("%s%s ", i ? ", " : "", param->name.at);
        for (unsigned d = 0; d < shape->rank; d++)
            printf("%s%lld", d ? "x" : "", (long long)shape->sizes[d]);
        printf(" %s", dtype_word((int)param->dtype));
    }
}

/* When there is more than one check, which of them says what. */
static void print_checks(const struct run_report *report)
{
    for (int i = 0; i < N_CHECKS; i++) {
        const struct run_verdict *verdict = &report->verdicts[i];
        if (!report->done[i])
            continue;
        printf("  against %-10s", i == CHECK_DEVICE ? report->other : check_names[i]);
        if (verdict->mismatches)
            printf("%llu of %llu numbers are wrong; first %s\n", (unsigned long long)verdict->mismatches,
                   (unsigned long long)verdict->checked, verdict->first);
        else
            printf("all %llu numbers are right, largest difference %.3g\n", (unsigned long long)verdict->checked,
                   verdict->worst);
    }
}

static void print_kernel(const struct run_report *report)
{
    char size[PRINT_ROOM];
    const struct fusiond_launch *launch = &report->launch;
    printf("\n  kernel        %.12s, %s, %s, grid %ux%ux%u, block %ux%ux%u, %s dynamic shared memory\n",
           fusiond_kernel_key(report->kernel), fusiond_kernel_target(report->kernel),
           fusiond_kernel_index_type(report->kernel), launch->grid[0], launch->grid[1], launch->grid[2],
           launch->block[0], launch->block[1], launch->block[2], print_size(launch->dynamic_shared_memory, size));
}

void run_report_print(const struct run_report *report)
{
    char a[PRINT_ROOM], b[PRINT_ROOM], c[PRINT_ROOM];
    const struct run_times *times = &report->times;
    struct run_verdict verdict = run_report_verdict(report);
    printf("%s on %s: ", report->title, report->device);
    print_tensors(report->call);
    print_kernel(report);
    printf("  compile       %s (%s), again %s\n", print_time(times->compile_ns, a),
           fusiond_kernel_outcome(report->kernel), print_time(times->hit_ns, b));
    printf("  context       %s, load %s, first launch %s\n", print_time(times->open_ns, a),
           print_time(times->load_ns, b), print_time(times->first_launch_ns, c));
    printf("  launch        %s, median of %u, least %s, %.3g GB/s\n", print_time(report->launch_ns, a), report->repeats,
           print_time(report->least_launch_ns, b), rate_of(report));
    print_checks(report);
    if (!is_checked(report))
        printf("%s: not checked (no --reference, --check or --compare), %.3g GB/s\n", report->title, rate_of(report));
    else if (verdict.mismatches)
        printf("%s: WRONG, %llu of %llu numbers; first %s\n", report->title, (unsigned long long)verdict.mismatches,
               (unsigned long long)verdict.checked, verdict.first);
    else
        printf("%s: right, all %llu numbers, largest difference %.3g; compile %s, again %s, launch %s, %.3g GB/s\n",
               report->title, (unsigned long long)verdict.checked, verdict.worst, print_time(times->compile_ns, a),
               print_time(times->hit_ns, b), print_time(report->launch_ns, c), rate_of(report));
}

/* ---- JSON ---- */

/* NaN is no JSON. */
static void print_verdict_json(const struct run_verdict *verdict)
{
    printf("\"numbers\": %llu, \"mismatches\": %llu, \"largest_difference\": ", (unsigned long long)verdict->checked,
           (unsigned long long)verdict->mismatches);
    if (isfinite(verdict->worst))
        printf("%.9g", verdict->worst);
    else
        fputs("null", stdout);
    fputs(", \"first\": ", stdout);
    if (verdict->mismatches)
        print_json_string(verdict->first, stdout);
    else
        fputs("null", stdout);
}

static void print_triple(const char *name, const unsigned values[3])
{
    printf(", \"%s\": [%u, %u, %u]", name, values[0], values[1], values[2]);
}

void run_report_print_json(const struct run_report *report)
{
    const struct run_times *times = &report->times;
    struct run_verdict verdict = run_report_verdict(report);
    fputs("{\"fusion\": ", stdout);
    print_json_string(report->title, stdout);
    fputs(", \"device\": ", stdout);
    print_json_string(report->device, stdout);
    printf(", \"key\": \"%s\", \"target\": \"%s\", \"outcome\": \"%s\"", fusiond_kernel_key(report->kernel),
           fusiond_kernel_target(report->kernel), fusiond_kernel_outcome(report->kernel));
    print_triple("grid", report->launch.grid);
    print_triple("block", report->launch.block);
    printf(", \"dynamic_shared_memory\": %u", report->launch.dynamic_shared_memory);
#define PRINT(name, value) printf(", \"" name "\": %llu", (unsigned long long)(value))
    PRINT("context_ns", times->open_ns);
    PRINT("compile_ns", times->compile_ns);
    PRINT("hit_ns", times->hit_ns);
    PRINT("load_ns", times->load_ns);
    PRINT("first_launch_ns", times->first_launch_ns);
    PRINT("launch_ns", report->launch_ns);
    PRINT("least_launch_ns", report->least_launch_ns);
    PRINT("repeats", report->repeats);
    PRINT("bytes", report->bytes);
#undef PRINT
    printf(", \"gb_per_s\": %.1f, \"checked\": %s, ", rate_of(report), is_checked(report) ? "true" : "false");
    print_verdict_json(&verdict);
    fputs(", \"checks\": [", stdout);
    for (int i = 0, n = 0; i < N_CHECKS; i++) {
        if (!report->done[i])
            continue;
        printf("%s{\"against\": \"%s\"", n++ ? ", " : "", check_names[i]);
        if (i == CHECK_DEVICE) {
            fputs(", \"device\": ", stdout);
            print_json_string(report->other, stdout);
        }
        fputs(", ", stdout);
        print_verdict_json(&report->verdicts[i]);
        putchar('}');
    }
    puts("]}");
}
