#include "daemon/resolve/options.h"

#include <string.h>

#include "daemon/resolve/defines.h"
#include "daemon/resolve/registers.h"
#include "daemon/resolve/zone.h"

/* The argument of a row is its form and what follows. */
struct value {
    struct text text; /* printed as it is */
    bool numeric;
    unsigned number;
    const struct define *define; /* NAME=VALUE */
};

#define VALUE_NONE ((struct value){.text = TEXT_OF("")})

/* ---- one function per row: whether its i-th argument is sent, and with which value ---- */

static bool flag(bool set, size_t i, struct value *ret)
{
    *ret = VALUE_NONE;
    return set && i == 0;
}

static bool choose_std(const struct settings *settings, size_t i, struct value *ret)
{
    (void)settings;
    return flag(true, i, ret);
}

static bool is_host(const struct settings *settings)
{
    return settings->target->image_kind == IMAGE_KIND_SHARED_OBJECT;
}

/* The host compiler needs to be told twice: information for the debugger, and code that it can follow. */
static bool choose_debug(const struct settings *settings, size_t i, struct value *ret)
{
    if (!is_host(settings))
        return flag(settings->compile->debug, i, ret);
    *ret = (struct value){.text = i == 0 ? TEXT_OF("g") : TEXT_OF("O0")};
    return settings->compile->debug && i < 2;
}

static bool choose_unused_variables(const struct settings *settings, size_t i, struct value *ret)
{
    (void)settings;
    return flag(true, i, ret);
}

static bool choose_architecture(const struct settings *settings, size_t i, struct value *ret)
{
    *ret = (struct value){.text = settings->target_name};
    return i == 0;
}

static bool choose_default_device(const struct settings *settings, size_t i, struct value *ret)
{
    (void)settings;
    return flag(true, i, ret);
}

static bool choose_fmad(const struct settings *settings, size_t i, struct value *ret)
{
    *ret = (struct value){.text = settings->compile->no_fmad ? TEXT_OF("false") : TEXT_OF("true")};
    return i == 0;
}

static bool choose_fast_math(const struct settings *settings, size_t i, struct value *ret)
{
    return flag(settings->compile->fast_math, i, ret);
}

/* The assembler ignores it beside -G and says so in its log; the client is told by a warning instead. */
static bool choose_line_info(const struct settings *settings, size_t i, struct value *ret)
{
    return flag(settings->compile->line_info && !settings->compile->debug, i, ret);
}

static bool choose_asserts(const struct settings *settings, size_t i, struct value *ret)
{
    return flag(!settings->compile->asserts, i, ret);
}

static bool choose_verbose(const struct settings *settings, size_t i, struct value *ret)
{
    (void)settings;
    return flag(true, i, ret);
}

/* Beside -G only 0 is legal, and it is what -G means. The C++ compiler's levels end at 3, and its default is 2: that is
 * what the default, and the level below, stand for. */
static bool choose_opt_level(const struct settings *settings, size_t i, struct value *ret)
{
    const struct compile_options *compile = settings->compile;
    unsigned level = (unsigned)compile->opt_level;
    bool is_default = level == OPT_LEVEL_DEFAULT || (is_host(settings) && level == OPT_LEVEL_HOST);
    *ret = (struct value){.numeric = true, .number = is_host(settings) && level > 3 ? 3 : level};
    return i == 0 && compile->has_opt_level && !is_default && !compile->debug;
}

static bool choose_quick(const struct settings *settings, size_t i, struct value *ret)
{
    const char *word = quick_level_word((int)settings->compile->quick);
    *ret = (struct value){.text = word ? (struct text){word, strlen(word)} : TEXT_OF("")};
    return i == 0 && word;
}

static bool choose_max_registers(const struct settings *settings, size_t i, struct value *ret)
{
    *ret = (struct value){.numeric = true, .number = settings->max_registers};
    return i == 0 && settings->max_registers != 0;
}

static bool choose_magic_zero(const struct settings *settings, size_t i, struct value *ret)
{
    return flag(settings->compile->no_magic_zero, i, ret);
}

static bool choose_defines(const struct settings *settings, size_t i, struct value *ret)
{
    if (i >= settings->compile->n_defines)
        return false;
    *ret = (struct value){.define = &settings->compile->defines[i]};
    return true;
}

/* Never an argument from here: paths are the worker's. */
static bool choose_toolkit_headers(const struct settings *settings, size_t i, struct value *ret)
{
    (void)settings;
    return flag(false, i, ret);
}

static bool choose_no_cache(const struct settings *settings, size_t i, struct value *ret)
{
    (void)settings;
    return flag(true, i, ret);
}

/* ---- the table ---- */

typedef bool (*choose_fn)(const struct settings *settings, size_t i, struct value *ret);

#define KEY true
#define REPORT false

static const struct option_row rows[] = {
#define OPTION(name, field, values, in_key, sass, ptx, host, load, major, minor)                                       \
    {#name, field, values, in_key, sass, ptx, host, load, major, minor},
#include "daemon/resolve/options.def"
#undef OPTION
};

static const choose_fn choosers[] = {
#define OPTION(name, field, values, in_key, sass, ptx, host, load, major, minor) choose_##name,
#include "daemon/resolve/options.def"
#undef OPTION
};

#undef KEY
#undef REPORT

#define ROWS (sizeof rows / sizeof rows[0])

const struct option_row *option_rows(size_t *ret_count)
{
    *ret_count = ROWS;
    return rows;
}

/* ---- checks ---- */

int options_check(const struct compile_options *compile, msgpack_zone *zone, struct error *error)
{
    if (compile->has_opt_level && compile->opt_level > OPT_LEVEL_MAX)
        return error_set(error, STATUS_INVALID_OPTION, "fusion.compile.opt_level: is %llu; the limits are 0 and %u",
                         (unsigned long long)compile->opt_level, OPT_LEVEL_MAX);
    if (compile->debug && compile->has_opt_level && compile->opt_level > 0)
        return error_set(error, STATUS_INVALID_OPTION,
                         "fusion.compile.opt_level: is %llu, but with compile.debug the assembler takes only 0",
                         (unsigned long long)compile->opt_level);
    if (compile->debug && compile->quick)
        return error_set(error, STATUS_INVALID_OPTION,
                         "fusion.compile.quick: is \"%s\", but with compile.debug nothing is optimised anyway",
                         quick_level_word((int)compile->quick));
    if (compile->has_max_registers && (compile->max_registers < 1 || compile->max_registers > REGISTER_MAX))
        return error_set(error, STATUS_INVALID_OPTION, "fusion.compile.max_registers: is %llu; the limits are 1 and %u",
                         (unsigned long long)compile->max_registers, REGISTER_MAX);
    return defines_check(compile, zone, error);
}

int option_check_compiler(const struct option_row *row, const struct compiler_facts *facts, struct error *error)
{
    if (facts->kind == COMPILER_HOST || compiler_is(facts, row->major, row->minor))
        return 0;
    return error_set(error, STATUS_INVALID_OPTION, "fusion.%s: needs NVRTC %u.%u; this daemon's is %u.%u", row->field,
                     row->major, row->minor, facts->major, facts->minor);
}

/* ---- writing ---- */

static int write_argument(const char *form, const struct value *value, msgpack_zone *zone, struct text *ret,
                          struct error *error)
{
    if (value->numeric)
        return zone_format(zone, ret, error, "%s%u", form, value->number);
    if (value->define)
        return define_write(form, value->define, zone, ret, error);
    return zone_format(zone, ret, error, "%s%.*s", form, (int)value->text.size, value->text.at);
}

static const char *form_of(const struct option_row *row, enum image_kind kind)
{
    return kind == IMAGE_KIND_SHARED_OBJECT ? row->host : kind == IMAGE_KIND_PTX ? row->ptx : row->sass;
}

int options_write(const struct settings *settings, msgpack_zone *zone, struct resolved *ret, struct error *error)
{
    size_t most = ROWS + settings->compile->n_defines, n_args = 0, n_key_args = 0, n_job_args = 0;
    struct text *args = zone_array(zone, most, sizeof *args, error);
    struct text *key_args = zone_array(zone, most, sizeof *key_args, error);
    struct text *job_args = zone_array(zone, most, sizeof *job_args, error);
    if (!args || !key_args || !job_args)
        return -1;
    for (size_t row = 0; row < ROWS; row++) {
        const char *form = form_of(&rows[row], settings->target->image_kind);
        struct value value;
        if (!form || (!rows[row].field[0] && !compiler_is(settings->facts, rows[row].major, rows[row].minor)))
            continue;
        for (size_t i = 0; choosers[row](settings, i, &value); i++) {
            if (option_check_compiler(&rows[row], settings->facts, error) ||
                write_argument(form, &value, zone, &args[n_args], error))
                return -1;
            if (rows[row].in_key)
                key_args[n_key_args++] = args[n_args];
            if (!value.define || settings->structured)
                job_args[n_job_args++] = args[n_args];
            n_args++;
        }
    }
    ret->args = args;
    ret->n_args = n_args;
    ret->key_args = key_args;
    ret->n_key_args = n_key_args;
    ret->job_args = job_args;
    ret->n_job_args = n_job_args;
    return 0;
}
