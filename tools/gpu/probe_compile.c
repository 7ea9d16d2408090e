// The kernels: from an image that was compiled before, or from kernels.cu by NVRTC. The probe of
// that name says which NVRTC it is, how long it takes, and whether the device takes what it made.
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Reads a file whole, with 64 zeros after it; the caller frees it.
static char *read_file(probe_session *session, const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file && !fseek(file, 0, SEEK_END) && ftell(file) >= 0) {
        *bytes = (size_t)ftell(file);
        rewind(file);
        text = calloc(1, *bytes + 64);
    }
    if (text && fread(text, 1, *bytes, file) != *bytes) {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    if (!text)
        probe_answer_fail(session->answer, "%s cannot be read", path);
    return text;
}

static bool check_nvrtc(probe_session *session, const char *call, zr_nvrtc_result result)
{
    if (result)
        probe_answer_fail_call(session->answer, call, (int)result,
                               session->nvrtc.nvrtcGetErrorString(result));
    return !result;
}

#define TRY_NVRTC(session, name, ...)                                                              \
    do {                                                                                           \
        if (!check_nvrtc(session, #name, (session)->nvrtc.name(__VA_ARGS__)))                      \
            return false;                                                                          \
    } while (0)

// The message of a failed compilation is the beginning of its log.
static void fail_with_log(probe_session *session, zr_nvrtc_program program)
{
    char log[8192] = "";
    size_t bytes = 0;
    if (!session->nvrtc.nvrtcGetProgramLogSize(program, &bytes) && bytes <= sizeof log)
        session->nvrtc.nvrtcGetProgramLog(program, log);
    log[200] = 0;
    check_nvrtc(session, "nvrtcCompileProgram", 0);
    probe_answer_fail(session->answer, "nvrtcCompileProgram for sm_%d: %s", session->capability,
                      log);
}

static bool make_image(probe_session *session, zr_nvrtc_program program, char **image,
                       size_t *bytes)
{
    char architecture[32];
    snprintf(architecture, sizeof architecture, "-arch=sm_%d", session->capability);
    const char *options[] = {architecture, "-std=c++17"};
    if (session->nvrtc.nvrtcCompileProgram(program, PROBE_LENGTH(options), options)) {
        fail_with_log(session, program);
        return false;
    }
    TRY_NVRTC(session, nvrtcGetCUBINSize, program, bytes);
    *image = calloc(1, *bytes + 64);
    if (!*image) {
        probe_answer_fail(session->answer, "the host has no %zu bytes for an image", *bytes);
        return false;
    }
    TRY_NVRTC(session, nvrtcGetCUBIN, program, *image);
    return true;
}

// Compiles the text for the session's device; the caller frees *image, also after a failure.
static bool compile_text(probe_session *session, const char *text, const char *header, char **image,
                         size_t *bytes)
{
    zr_nvrtc_program program;
    const char *const names[] = {"kernels.h"};
    TRY_NVRTC(session, nvrtcCreateProgram, &program, text, "kernels.cu", 1, &header, names);
    bool ok = make_image(session, program, image, bytes);
    session->nvrtc.nvrtcDestroyProgram(&program);
    return ok;
}

static bool compile_kernels(probe_session *session, char **image, size_t *bytes)
{
    char path[4096];
    size_t length;
    snprintf(path, sizeof path, "%s/kernels.cu", session->options->text);
    char *text = read_file(session, path, &length);
    snprintf(path, sizeof path, "%s/kernels.h", session->options->text);
    char *header = text ? read_file(session, path, &length) : NULL;
    bool ok = header && compile_text(session, text, header, image, bytes);
    free(text);
    free(header);
    return ok;
}

static void release_module(probe_session *session, const probe_held *held)
{
    session->module = NULL;
    probe_check(session, "cuModuleUnload", session->cu.cuModuleUnload(held->pointer));
}

static bool load_image(probe_session *session, const char *image)
{
    zr_cuda_module module;
    PROBE_TRY(session, cuModuleLoadData, &module, image);
    session->module = module;
    return probe_hold(session, (probe_held){.release = release_module, .pointer = module});
}

bool probe_load_kernels(probe_session *session)
{
    char *image = NULL, path[4096];
    size_t bytes;
    bool ok = session->options->image
                  ? (image = read_file(session, session->options->image, &bytes)) != NULL
                  : probe_load_nvrtc(session, path, sizeof path) &&
                        compile_kernels(session, &image, &bytes);
    ok = ok && load_image(session, image);
    free(image);
    return ok;
}

static bool time_compiling(probe_session *session)
{
    char *image = NULL;
    size_t bytes = 0;
    double began = probe_now();
    bool ok = compile_kernels(session, &image, &bytes);
    if (ok) {
        probe_answer_number(session->answer, "compile_s", probe_now() - began);
        probe_answer_integer(session->answer, "image_bytes", (long long)bytes);
        began = probe_now();
        ok = load_image(session, image);
        probe_answer_number(session->answer, "load_s", probe_now() - began);
    }
    free(image);
    return ok;
}

static bool describe_kernel(probe_session *session, const char *name)
{
    zr_cuda_function function;
    int registers = 0, spilled = 0;
    char key[64];
    PROBE_TRY(session, cuModuleGetFunction, &function, session->module, name);
    PROBE_TRY(session, cuFuncGetAttribute, &registers, ZR_CU_FUNC_ATTRIBUTE_NUM_REGS, function);
    PROBE_TRY(session, cuFuncGetAttribute, &spilled, ZR_CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
              function);
    snprintf(key, sizeof key, "%s_registers", name + strlen("probe_"));
    probe_answer_integer(session->answer, key, registers);
    snprintf(key, sizeof key, "%s_local_bytes", name + strlen("probe_"));
    probe_answer_integer(session->answer, key, spilled);
    return true;
}

bool probe_compile(probe_session *session)
{
    char path[4096];
    int major = 0, minor = 0;
    if (!probe_load_nvrtc(session, path, sizeof path))
        return false;
    TRY_NVRTC(session, nvrtcVersion, &major, &minor);
    probe_answer_text(session->answer, "library", path);
    probe_answer_integer(session->answer, "version", major * 1000 + minor * 10);
    probe_answer_integer(session->answer, "architecture", session->capability);
    return time_compiling(session) && describe_kernel(session, "probe_attention") &&
           describe_kernel(session, "probe_limbs") && describe_kernel(session, "probe_copy");
}
