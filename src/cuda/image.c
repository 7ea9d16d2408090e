// Images of kernels: those that the build was given, from the user's cache, or by NVRTC.
//
// A file of the cache is kernels-HASH.cubin, where HASH is that of all texts, the options with the
// capability, and NVRTC's version. It begins with a line that says what it is:
//
//   zero-kernels FILE sm_90 <hash of texts and options> <bytes of the image> <hash of the image>\n
//   the image
//
// The build's option kernel_images names a folder with such files as FILE-sm_90.cubin, which are
// taken, whatever compiled them, if they are of the same texts and options: there, NVRTC is not
// needed.
#include "cuda/image.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/random.h"
#include "cuda/libraries.h"

#include <stdio.h>
#include <string.h>

#ifndef ZR_CUDA_IMAGES
#define ZR_CUDA_IMAGES ""
#endif

enum { MOST_HEADERS = 32, MOST_OPTIONS = 4, HEAD_BYTES = 256, MOST_BYTES = 64 << 20 };

typedef struct hash {
    uint64_t half[2];
} hash;

typedef struct recipe { // of an image
    const char *file, *text;
    char arch[24]; // "-arch=sm_90"
    const char *options[MOST_OPTIONS];
    int option_count;
    hash texts; // and options
} recipe;

// ---- what an image is made of ----

static void hash_add(hash *to, const void *bytes, size_t count)
{
    for (int i = 0; i < 2; i++)
        to->half[i] = zr_hash_bytes(bytes, count, to->half[i] + (uint64_t)i);
}

static void hash_add_text(hash *to, const char *text) { hash_add(to, text, strlen(text) + 1); }

static zero_status write_recipe(const char *file, int capability, recipe *out, zero_error *error)
{
    const zr_cuda_text *text = zr_cuda_kernel_texts;
    while (text->name && strcmp(text->name, file) != 0)
        text++;
    if (!text->name)
        return zr_fail(error, ZERO_ERR_INTERNAL, "there is no file %s.cu of kernels", file);
    *out = (recipe){.file = file, .text = text->text};
    snprintf(out->arch, sizeof out->arch, "-arch=sm_%d", capability);
    out->options[out->option_count++] = out->arch;
    out->options[out->option_count++] = "-std=c++17";
    if (strcmp(file, "states") == 0)
        out->options[out->option_count++] = "--fmad=false"; // as on the host (states.cu)
    hash_add_text(&out->texts, file);
    hash_add_text(&out->texts, text->text);
    for (const zr_cuda_text *header = zr_cuda_header_texts; header->name; header++) {
        hash_add_text(&out->texts, header->name);
        hash_add_text(&out->texts, header->text);
    }
    for (int i = 0; i < out->option_count; i++)
        hash_add_text(&out->texts, out->options[i]);
    return ZERO_OK;
}

// ---- kept images ----

// Writes the first line of an image's file. Returns its length.
static int write_head(const recipe *of, const zr_cuda_image *image, char head[HEAD_BYTES])
{
    hash own = {0};
    hash_add(&own, image->bytes, image->count);
    return snprintf(head, HEAD_BYTES, "zero-kernels %s %s %016llx%016llx %zu %016llx%016llx\n",
                    of->file, of->arch + strlen("-arch="), (unsigned long long)of->texts.half[0],
                    (unsigned long long)of->texts.half[1], image->count,
                    (unsigned long long)own.half[0], (unsigned long long)own.half[1]);
}

// Reads a kept image. Returns whether it is whole, and what was to be kept there.
static bool read_kept(const char *path, const recipe *of, zr_cuda_image *out)
{
    char head[HEAD_BYTES], *data = NULL;
    size_t length = 0;
    if (zr_file_read(path, MOST_BYTES, &data, &length, NULL) != ZERO_OK)
        return false;
    const char *end = memchr(data, '\n', ZR_MIN(length, (size_t)HEAD_BYTES));
    size_t first = end ? (size_t)(end + 1 - data) : 0;
    zr_cuda_image image = {.bytes = data, .count = length - first};
    bool same = first > 0;
    if (same) {
        memmove(head, data, first);
        memmove(data, data + first, image.count);
        char wanted[HEAD_BYTES];
        int bytes = write_head(of, &image, wanted);
        same = (size_t)bytes == first && memcmp(head, wanted, first) == 0;
    }
    if (same)
        *out = image;
    else
        zr_free(data);
    return same;
}

static zero_status write_kept(const char *path, const recipe *of, const zr_cuda_image *image,
                              zero_error *error)
{
    char head[HEAD_BYTES];
    zr_buffer whole = {0};
    ZERO_TRY(zr_user_cache_reserve(path, error));
    zr_buffer_append(&whole, head, (size_t)write_head(of, image, head));
    zr_buffer_append(&whole, image->bytes, image->count);
    return zr_file_write_text(path, &whole, error);
}

// Takes an image that the build was given.
static bool read_ready(const recipe *of, zr_cuda_image *out, char *warning)
{
    char path[1024];
    if (!*ZR_CUDA_IMAGES)
        return false;
    snprintf(path, sizeof path, "%s/%s-%s.cubin", ZR_CUDA_IMAGES, of->file,
             of->arch + strlen("-arch="));
    if (!zr_path_exists(path))
        return false;
    if (read_kept(path, of, out))
        return true;
    snprintf(warning, ZERO_MESSAGE_BYTES,
             "\"%.512s\" is not used: it is damaged, or of other kernels than these", path);
    return false;
}

// ---- compiling ----

// Fails with what the compiler has written. An older one than the card does not know its name.
static zero_status fail_compiling(const zr_nvrtc *rtc, zr_nvrtc_program program, const recipe *of,
                                  zr_nvrtc_result result, zero_error *error)
{
    size_t bytes = 0;
    char *log = NULL;
    if (!rtc->nvrtcGetProgramLogSize(program, &bytes) && bytes > 1 &&
        (log = zr_alloc(bytes + 1, NULL)) && rtc->nvrtcGetProgramLog(program, log))
        *log = 0;
    int major = 0, minor = 0;
    rtc->nvrtcVersion(&major, &minor);
    zr_fail(error, ZERO_ERR_UNSUPPORTED, "compiling %s.cu (%s) failed: NVRTC %d.%d: %s%s%.600s%s",
            of->file, of->arch, major, minor, rtc->nvrtcGetErrorString(result),
            log && *log ? ": " : "", log ? log : "",
            result == ZR_NVRTC_ERROR_INVALID_OPTION ? "; a later NVRTC may know this card" : "");
    zr_free(log);
    return ZERO_ERR_UNSUPPORTED;
}

static zero_status take_image(const zr_nvrtc *rtc, zr_nvrtc_program program, const recipe *of,
                              zr_cuda_image *out, zero_error *error)
{
    zr_cuda_image image = {.compiled = true};
    zr_nvrtc_result result =
        rtc->nvrtcCompileProgram(program, of->option_count, (const char *const *)of->options);
    if (!result)
        result = rtc->nvrtcGetCUBINSize(program, &image.count);
    if (result)
        return fail_compiling(rtc, program, of, result, error);
    if (!(image.bytes = zr_alloc(image.count, error)))
        return ZERO_ERR_MEMORY;
    if ((result = rtc->nvrtcGetCUBIN(program, image.bytes))) {
        zr_free(image.bytes);
        return fail_compiling(rtc, program, of, result, error);
    }
    *out = image;
    return ZERO_OK;
}

static zero_status compile(const zr_nvrtc *rtc, const recipe *of, zr_cuda_image *out,
                           zero_error *error)
{
    const char *headers[MOST_HEADERS], *names[MOST_HEADERS];
    char name_texts[MOST_HEADERS][40];
    zr_nvrtc_program program = NULL;
    int count = 0;
    for (; zr_cuda_header_texts[count].name; count++) {
        if (count == MOST_HEADERS)
            return zr_fail(error, ZERO_ERR_INTERNAL, "kernels have more than %d headers", count);
        snprintf(name_texts[count], sizeof name_texts[count], "%s.h",
                 zr_cuda_header_texts[count].name);
        names[count] = name_texts[count];
        headers[count] = zr_cuda_header_texts[count].text;
    }
    zr_nvrtc_result result =
        rtc->nvrtcCreateProgram(&program, of->text, of->file, count, headers, names);
    if (result)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "compiling %s.cu failed: nvrtcCreateProgram: %s", of->file,
                       rtc->nvrtcGetErrorString(result));
    zero_status status = take_image(rtc, program, of, out, error);
    rtc->nvrtcDestroyProgram(&program);
    return status;
}

// ---- the whole ----

// Returns the path in the cache (zr_free), or NULL with a warning.
static char *kept_path(const zr_nvrtc *rtc, const recipe *of, char *warning)
{
    int version[2] = {0};
    char name[64], *path = NULL;
    hash key = of->texts;
    zero_error error = {0};
    rtc->nvrtcVersion(&version[0], &version[1]);
    hash_add(&key, version, sizeof version);
    snprintf(name, sizeof name, "kernels-%016llx%016llx.cubin", (unsigned long long)key.half[0],
             (unsigned long long)key.half[1]);
    if (zr_user_cache_file(name, "kernels", &path, &error) == ZERO_OK)
        return path;
    snprintf(warning, ZERO_MESSAGE_BYTES, "kernels are compiled anew each time: %.900s",
             error.message);
    return NULL;
}

// Compiles an image and keeps it, where there is a path.
static zero_status make_anew(const zr_nvrtc *rtc, const recipe *of, const char *path,
                             zr_cuda_image *out, char *warning, zero_error *error)
{
    zero_error refused = {0};
    bool damaged = path && zr_path_exists(path);
    ZERO_TRY(compile(rtc, of, out, error));
    if (path && write_kept(path, of, out, &refused) != ZERO_OK)
        snprintf(warning, ZERO_MESSAGE_BYTES, "kernels are compiled anew each time: %.900s",
                 refused.message);
    else if (damaged)
        snprintf(warning, ZERO_MESSAGE_BYTES, "\"%.900s\" was damaged, and was made anew", path);
    return ZERO_OK;
}

zero_status zr_cuda_image_make(const char *file, int capability, bool anew, zr_cuda_image *out,
                               char *warning, zero_error *error)
{
    recipe of;
    *out = (zr_cuda_image){0};
    *warning = 0;
    ZERO_TRY(write_recipe(file, capability, &of, error));
    if (!anew && read_ready(&of, out, warning))
        return ZERO_OK;
    const zr_nvrtc *rtc = zr_cuda_nvrtc_get(error);
    if (!rtc)
        return ZERO_ERR_UNSUPPORTED;
    char *path = kept_path(rtc, &of, warning);
    zero_status status = ZERO_OK;
    if (anew || !path || !read_kept(path, &of, out))
        status = make_anew(rtc, &of, path, out, warning, error);
    zr_free(path);
    return status;
}
