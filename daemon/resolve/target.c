#include "daemon/resolve/target.h"

#include <string.h>

#include "daemon/resolve/zone.h"

#define SUFFIX_A_FROM 90u
#define SUFFIX_F_FROM 100u

bool compiler_is(const struct compiler_facts *facts, unsigned major, unsigned minor)
{
    return facts->major > major || (facts->major == major && facts->minor >= minor);
}

/* One for each release since 11.2, but for 12.6, until the numbers began to follow the release. */
unsigned ptx_version(unsigned major, unsigned minor)
{
    if (major >= 13)
        return (major - 4) * 10 + minor;
    if (major == 12)
        return 80 + minor - (minor >= 6);
    return 70 + minor;
}

const char *target_name(const struct target *target, char ret[TARGET_TEXT])
{
    if (target->image_kind == IMAGE_KIND_SHARED_OBJECT)
        return memcpy(ret, "host", sizeof "host");
    const char *kind = target->image_kind == IMAGE_KIND_PTX ? "compute" : "sm";
    char suffix[2] = {target->suffix, 0};
    snprintf(ret, TARGET_TEXT, "%s_%u%s", kind, target->arch, suffix);
    return ret;
}

static bool is_listed(const struct compiler_facts *facts, unsigned arch)
{
    for (size_t i = 0; i < facts->n_archs; i++)
        if (facts->archs[i] == (int64_t)arch)
            return true;
    return false;
}

/* UNSUPPORTED_TARGET: the target, why, and all that the compiler has. */
static int refuse(struct text text, const char *why, const struct compiler_facts *facts, struct error *error)
{
    char list[256] = "", printable[PRINTABLE];
    size_t used = 0;
    for (size_t i = 0; i < facts->n_archs && used + 8 < sizeof list; i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%ld", i ? ", " : "", (long)facts->archs[i] % 10000);
    return error_set(error, STATUS_UNSUPPORTED_TARGET, "fusion.target: \"%s\" %s; NVRTC %u.%u supports %s",
                     text_printable(text, printable), why, facts->major, facts->minor,
                     facts->n_archs ? list : "no target at all");
}

static int malformed(struct text text, struct error *error)
{
    char printable[PRINTABLE];
    return error_set(
        error, STATUS_INVALID_FIELD,
        "fusion.target: \"%s\" is none of sm_<arch>, sm_<arch>a, sm_<arch>f, compute_<arch>, cc_<major>.<minor> "
        "or host",
        text_printable(text, printable));
}

/* A number of one to three digits without leading zeros; 0 when there is none. Moves *at behind it. */
static unsigned read_number(const char **at, const char *end)
{
    unsigned number = 0;
    const char *from = *at;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - from < 3; (*at)++)
        number = number * 10 + (unsigned)(**at - '0');
    return *at > from && *from != '0' ? number : 0;
}

static bool skip_word(const char **at, const char *end, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(end - *at) < size || memcmp(*at, word, size) != 0)
        return false;
    *at += size;
    return true;
}

/* A driver loads no PTX that is newer than itself. */
static int check_driver(struct text text, const struct target *target, const struct compiler_facts *facts,
                        struct error *error)
{
    unsigned major = facts->driver / 1000, minor = facts->driver % 1000 / 10;
    unsigned written = ptx_version(facts->major, facts->minor), loaded = ptx_version(major, minor);
    char printable[PRINTABLE];
    if (target->image_kind != IMAGE_KIND_PTX || !facts->driver || written <= loaded)
        return 0;
    return error_set(error, STATUS_UNSUPPORTED_TARGET,
                     "fusion.target: \"%s\" is PTX %u.%u of NVRTC %u.%u, but the driver (CUDA %u.%u) loads PTX up to "
                     "%u.%u; a newer driver, or an older NVRTC, is needed",
                     text_printable(text, printable), written / 10, written % 10, facts->major, facts->minor, major,
                     minor, loaded / 10, loaded % 10);
}

/* "cc_8.9". */
static int settle_device(struct text text, const char *at, enum image_kind wanted, const struct compiler_facts *facts,
                         struct target *ret, struct error *error)
{
    const char *end = text.at + text.size;
    unsigned major = read_number(&at, end);
    if (!major || major > 99 || end - at != 2 || at[0] != '.' || at[1] < '0' || at[1] > '9')
        return malformed(text, error);
    unsigned device = major * 10 + (unsigned)(at[1] - '0');

    unsigned lower = 0; /* the nearest that is not above the device */
    for (size_t i = 0; i < facts->n_archs; i++)
        if (facts->archs[i] > 0 && facts->archs[i] <= (int64_t)device)
            lower = (unsigned)facts->archs[i];
    if (!lower)
        return refuse(text, "is older than all that the compiler supports", facts, error);

    struct target target = {.arch = lower, .image_kind = IMAGE_KIND_CUBIN, .device = device};
    bool newest = lower == (unsigned)facts->archs[facts->n_archs - 1];
    if (lower == device)
        target.suffix = device >= SUFFIX_A_FROM && compiler_is(facts, 12, 0) ? 'a' : 0;
    else if (newest || lower / 10 != major)
        target.image_kind = IMAGE_KIND_PTX;

    if (wanted == IMAGE_KIND_CUBIN && target.image_kind == IMAGE_KIND_PTX)
        return refuse(text, "can only be had as PTX, but compile.image is cubin", facts, error);
    if (wanted == IMAGE_KIND_PTX)
        target.image_kind = IMAGE_KIND_PTX;
    if (check_driver(text, &target, facts, error))
        return -1;
    *ret = target;
    return 0;
}

static int check_suffix(struct text text, const struct target *target, const struct compiler_facts *facts,
                        struct error *error)
{
    if (target->suffix == 'a' && target->arch < SUFFIX_A_FROM)
        return refuse(text, "has the suffix a, which begins with 90", facts, error);
    if (target->suffix == 'a' && !compiler_is(facts, 12, 0))
        return refuse(text, "has the suffix a, which needs NVRTC 12.0", facts, error);
    if (target->suffix == 'f' && target->arch < SUFFIX_F_FROM)
        return refuse(text, "has the suffix f, which begins with 100", facts, error);
    if (target->suffix == 'f' && !compiler_is(facts, 12, 9))
        return refuse(text, "has the suffix f, which needs NVRTC 12.9", facts, error);
    return 0;
}

/* "sm_90a", "compute_80". */
static int settle_explicit(struct text text, const char *at, enum image_kind kind, const struct compiler_facts *facts,
                           struct target *ret, struct error *error)
{
    const char *end = text.at + text.size;
    struct target target = {.arch = read_number(&at, end), .image_kind = kind};
    if (at < end && (*at == 'a' || *at == 'f'))
        target.suffix = *at++;
    if (!target.arch || at != end)
        return malformed(text, error);
    if (!is_listed(facts, target.arch))
        return refuse(text, "is not supported by the compiler", facts, error);
    if (check_suffix(text, &target, facts, error))
        return -1;
    *ret = target;
    return 0;
}

const char *compiler_name(enum compiler_kind kind)
{
    static const char *const names[COMPILER_KINDS] = {"nvrtc", "nvrtc+toolkit", "g++"};
    return names[kind];
}

static bool is_host(struct text target)
{
    return target.at && text_is(target, "host");
}

enum compiler_kind compiler_for(const struct fusion *fusion)
{
    if (is_host(fusion->target))
        return COMPILER_HOST;
    return fusion->compile && fusion->compile->toolkit_headers ? COMPILER_TOOLKIT : COMPILER_NVRTC;
}

static int settle_host(enum image_kind wanted, struct target *ret, struct error *error)
{
    if (wanted && wanted != IMAGE_KIND_SHARED_OBJECT)
        return error_set(error, STATUS_INVALID_OPTION,
                         "fusion.compile.image: is %s, but the target \"host\" gives a shared_object",
                         image_kind_word((int)wanted));
    *ret = (struct target){.image_kind = IMAGE_KIND_SHARED_OBJECT};
    return 0;
}

int target_settle(struct text text, enum image_kind wanted, const struct compiler_facts *facts, struct target *ret,
                  struct error *error)
{
    const char *at = text.at;
    if (!text.at)
        return error_set(error, STATUS_MISSING_FIELD, "fusion.target: is absent");
    if (is_host(text))
        return settle_host(wanted, ret, error);
    if (wanted == IMAGE_KIND_SHARED_OBJECT)
        return error_set(error, STATUS_INVALID_OPTION,
                         "fusion.compile.image: is shared_object, which only the target \"host\" gives");
    if (!facts->n_archs)
        return refuse(text, "cannot be compiled", facts, error);

    const char *end = text.at + text.size;
    if (skip_word(&at, end, "cc_"))
        return settle_device(text, at, wanted, facts, ret, error);
    if (skip_word(&at, end, "sm_"))
        return settle_explicit(text, at, wanted == IMAGE_KIND_PTX ? IMAGE_KIND_PTX : IMAGE_KIND_CUBIN, facts, ret,
                               error);
    if (!skip_word(&at, end, "compute_"))
        return malformed(text, error);
    if (wanted == IMAGE_KIND_CUBIN)
        return error_set(error, STATUS_INVALID_OPTION,
                         "fusion.compile.image: is cubin, but the target \"%.*s\" gives PTX; a cubin needs sm_<arch>",
                         (int)(text.size < 32 ? text.size : 32), text.at);
    return settle_explicit(text, at, IMAGE_KIND_PTX, facts, ret, error);
}
