#include "daemon/compiler/nvrtc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first release with all rows of nvrtc.def. */
#define NVRTC_OLDEST "11.2"

#define WHAT_TO_DO "install the CUDA toolkit, or run scripts/quickstart, or set FUSIOND_NVRTC=/path/to/libnvrtc.so"

/* File names, newest first. Wheels have only the one with the version. */
static const char *const file_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

/* Where a folder may hold the library: itself, a toolkit, Python wheels (CUDA 13, CUDA 12). */
static const char *const layouts[] = {"", "/lib64", "/lib", "/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"};

static const char toolkit[] = "/usr/local/cuda/lib64";

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* dlopen, keeping the reason of a file that exists but cannot be loaded: the one worth telling. */
static void *load(const char *path, struct error *reason)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && reason->code == STATUS_OK && access(path, F_OK) == 0)
        error_set(reason, STATUS_COMPILER_UNAVAILABLE, "%s", dlerror());
    return library;
}

static void *load_from_folder(const char *folder, struct error *reason)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < COUNT(layouts); i++) {
        for (size_t j = 0; j < COUNT(file_names); j++) {
            int n = snprintf(path, sizeof path, "%s%s/%s", folder, layouts[i], file_names[j]);
            if (n < 0 || (size_t)n >= sizeof path)
                continue;
            void *library = load(path, reason);
            if (library != NULL)
                return library;
        }
    }
    return NULL;
}

static void *find(const char *path, const char *const *dirs, size_t n_dirs, struct error *error)
{
    struct error reason = {0};
    void *library = NULL;
    if (path != NULL) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            error_set(error, STATUS_COMPILER_UNAVAILABLE, "NVRTC at %s cannot be loaded (%s); " WHAT_TO_DO, path,
                      dlerror());
        return library;
    }
    for (size_t i = 0; i < n_dirs && library == NULL; i++)
        library = load_from_folder(dirs[i], &reason);
    if (library == NULL)
        library = load_from_folder(toolkit, &reason);
    for (size_t i = 0; i < COUNT(file_names) && library == NULL; i++)
        library = dlopen(file_names[i], RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        return library;
    if (reason.code != STATUS_OK)
        error_set(error, STATUS_COMPILER_UNAVAILABLE, "NVRTC was found but cannot be loaded (%s); " WHAT_TO_DO,
                  reason.text);
    else
        error_set(error, STATUS_COMPILER_UNAVAILABLE, "NVRTC, the CUDA run-time compiler, was not found; " WHAT_TO_DO);
    return NULL;
}

static int bind_symbols(struct nvrtc *nvrtc, void *library, struct error *error)
{
    const char *missing = NULL;
#define NVRTC(field, symbol, parameters)                                                                               \
    *(void **)&nvrtc->field = dlsym(library, #symbol);                                                                 \
    if (nvrtc->field == NULL && missing == NULL)                                                                       \
        missing = #symbol;
#include "daemon/compiler/nvrtc.def"
#undef NVRTC
    *(void **)&nvrtc->result_name = dlsym(library, "nvrtcGetErrorString");
    if (nvrtc->result_name == NULL && missing == NULL)
        missing = "nvrtcGetErrorString";

    *(void **)&nvrtc->set_pch_heap = dlsym(library, "nvrtcSetPCHHeapSize");

    struct link_map *map = NULL;
    const char *name = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "the library";
    if (missing != NULL)
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "%s has no %s: NVRTC %s or newer is needed; " WHAT_TO_DO,
                         name, missing, NVRTC_OLDEST);
    if (realpath(name, nvrtc->path) == NULL)
        return error_set_errno(error, STATUS_COMPILER_UNAVAILABLE, errno, "the path of NVRTC, %s", name);
    return 0;
}

static int check(const struct nvrtc *nvrtc, int result, const char *what, struct error *error)
{
    if (result == NVRTC_RESULT_SUCCESS)
        return 0;
    return error_set(error, STATUS_COMPILER_UNAVAILABLE, "%s: %s failed: %s", nvrtc->path, what,
                     nvrtc->result_name(result));
}

static int ask(struct nvrtc *nvrtc, struct error *error)
{
    int count = 0;
    if (check(nvrtc, nvrtc->version(&nvrtc->major, &nvrtc->minor), "nvrtcVersion", error) < 0 ||
        check(nvrtc, nvrtc->arch_count(&count), "nvrtcGetNumSupportedArchs", error) < 0)
        return -1;
    if (count < 1 || count > NVRTC_MAX_ARCHS)
        return error_set(error, STATUS_COMPILER_UNAVAILABLE, "%s: %d supported targets; 1 to %d are expected",
                         nvrtc->path, count, NVRTC_MAX_ARCHS);
    if (check(nvrtc, nvrtc->arch_list(nvrtc->archs), "nvrtcGetSupportedArchs", error) < 0)
        return -1;
    nvrtc->n_archs = (size_t)count;
    return 0;
}

/* NVRTC opens its second file by a bare name. In a folder that the loader does not search (a wheel's) it is only found
 * if it is loaded already. That it is missing shows at the warm-up, in NVRTC's own words. */
static void load_builtins(const struct nvrtc *nvrtc)
{
    char path[PATH_MAX];
    const char *slash = strrchr(nvrtc->path, '/');
    int folder = slash ? (int)(slash - nvrtc->path) : 0;
    int n =
        snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", folder, nvrtc->path, nvrtc->major, nvrtc->minor);
    if (n > 0 && (size_t)n < sizeof path)
        dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

int nvrtc_open(struct nvrtc *ret, const char *path, const char *const *dirs, size_t n_dirs, struct error *error)
{
    struct nvrtc nvrtc = {0};
    void *library = find(path, dirs, n_dirs, error);
    if (library == NULL)
        return -1;
    /* After a failure the library stays loaded: its static objects do not survive dlclose, and the process ends. */
    if (bind_symbols(&nvrtc, library, error) < 0 || ask(&nvrtc, error) < 0)
        return -1;
    load_builtins(&nvrtc);
    *ret = nvrtc;
    return 0;
}

static int note_builtins(struct dl_phdr_info *info, size_t size, void *data)
{
    static const char prefix[] = "libnvrtc-builtins";
    char *ret = data;
    (void)size;
    if (info->dlpi_name == NULL)
        return 0;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *base = slash ? slash + 1 : info->dlpi_name;
    if (strncmp(base, prefix, sizeof prefix - 1) != 0)
        return 0;
    return realpath(info->dlpi_name, ret) != NULL;
}

int nvrtc_warm_up(struct nvrtc *nvrtc, struct error *error)
{
    /* Mathematics pulls in the bitcode library, the name expression the name map, the target the assembler. */
    static const char source[] = "template <class T> __global__ void warm(T *p) { *p = sinf(*p) + powf(*p, 3.1f); }";
    char arch[64];
    const char *options[] = {arch, "--std=c++17", "-no-cache"};
    /* Older releases have no cache and refuse the option. */
    bool has_cache = nvrtc->major > 12 || (nvrtc->major == 12 && nvrtc->minor >= 9);
    void *program = NULL;

    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d", nvrtc->archs[nvrtc->n_archs - 1]);
    int result = nvrtc->create(&program, source, "fusion.cu", 0, NULL, NULL);
    if (check(nvrtc, result, "nvrtcCreateProgram", error) < 0)
        return -1;
    result = nvrtc->add_name(program, "warm<float>");
    if (result == NVRTC_RESULT_SUCCESS)
        result = nvrtc->compile(program, has_cache ? 3 : 2, options);
    nvrtc->destroy(&program);
    if (check(nvrtc, result, "the first compile", error) < 0)
        return -1;
    dl_iterate_phdr(note_builtins, nvrtc->builtins);
    return 0;
}

static int identify(const char *path, char *ret, size_t size, struct error *error)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return error_set_errno(error, STATUS_COMPILER_UNAVAILABLE, errno, "%s", path);
    snprintf(ret, size, "%llx:%llx:%llu:%lld.%09ld", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
             (unsigned long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    return 0;
}

int nvrtc_identity(const struct nvrtc *nvrtc, char *ret, size_t size, struct error *error)
{
    char library[128], builtins[128] = "none";
    if (identify(nvrtc->path, library, sizeof library, error) < 0)
        return -1;
    if (nvrtc->builtins[0] != '\0' && identify(nvrtc->builtins, builtins, sizeof builtins, error) < 0)
        return -1;
    snprintf(ret, size, "%s %s", library, builtins);
    return 0;
}

/* Hash the size, then the contents, so that no two pairs of files run together. */
static int hash_file(crypto_generichash_state *state, const char *path, struct error *error)
{
    enum { CHUNK = 1 << 20 };
    struct stat st;
    uint64_t done = 0;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *chunk = malloc(CHUNK);
    if (fd < 0 || chunk == NULL || fstat(fd, &st) < 0)
        goto fail;
    uint64_t size = (uint64_t)st.st_size;
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (uint8_t)(size >> (8 * i));
    crypto_generichash_update(state, prefix, sizeof prefix);
    while ((n = read(fd, chunk, CHUNK)) > 0) {
        crypto_generichash_update(state, chunk, (size_t)n);
        done += (uint64_t)n;
    }
    if (n < 0 || done != size)
        goto fail;
    free(chunk);
    close(fd);
    return 0;
fail:
    error_set_errno(error, STATUS_COMPILER_UNAVAILABLE, errno, "reading %s", path);
    free(chunk);
    if (fd >= 0)
        close(fd);
    return -1;
}

int nvrtc_build(const struct nvrtc *nvrtc, uint8_t ret[DIGEST_SIZE], struct error *error)
{
    static const char tag[] = "fusiond compiler build 1";
    crypto_generichash_state state;
    uint8_t digest[DIGEST_SIZE];
    if (sodium_init() < 0)
        return error_set(error, STATUS_INTERNAL, "libsodium cannot be initialised");
    crypto_generichash_init(&state, NULL, 0, DIGEST_SIZE);
    if (hash_file(&state, nvrtc->path, error) < 0)
        return -1;
    if (nvrtc->builtins[0] != '\0' && hash_file(&state, nvrtc->builtins, error) < 0)
        return -1;
    crypto_generichash_update(&state, (const uint8_t *)tag, sizeof tag - 1);
    crypto_generichash_final(&state, digest, DIGEST_SIZE);
    memcpy(ret, digest, DIGEST_SIZE);
    return 0;
}
