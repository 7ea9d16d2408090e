// Images of kernels: from the cache, or by NVRTC.
#include "cuda/image.h"

#include "base/alloc.h"
#include "cuda/libraries.h"

#include <stdio.h>
#include <string.h>

enum { MOST_HEADERS = 16 };

zero_status zr_cuda_image_make(const char *file, int capability, zr_cuda_image *out, char *warning,
                               zero_error *error)
{
    const zr_nvrtc *rtc = zr_cuda_nvrtc_get(error);
    const char *headers[MOST_HEADERS], *text = NULL;
    char names[MOST_HEADERS][40], arch[32], log[4096] = "";
    const char *name_list[MOST_HEADERS];
    int count = 0;
    zr_nvrtc_program program;
    if (!rtc)
        return ZERO_ERR_UNSUPPORTED;
    *warning = 0;
    for (; zr_cuda_header_texts[count].name; count++) {
        headers[count] = zr_cuda_header_texts[count].text;
        snprintf(names[count], sizeof names[count], "%s.h", zr_cuda_header_texts[count].name);
        name_list[count] = names[count];
    }
    for (int i = 0; zr_cuda_kernel_texts[i].name; i++)
        if (strcmp(zr_cuda_kernel_texts[i].name, file) == 0)
            text = zr_cuda_kernel_texts[i].text;
    snprintf(arch, sizeof arch, "-arch=sm_%d", capability);
    const char *options[] = {arch, "-std=c++17"};
    rtc->nvrtcCreateProgram(&program, text, file, count, headers, name_list);
    if (rtc->nvrtcCompileProgram(program, 2, options)) {
        size_t bytes = 0;
        if (!rtc->nvrtcGetProgramLogSize(program, &bytes) && bytes <= sizeof log)
            rtc->nvrtcGetProgramLog(program, log);
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "compiling %s: %.200s", file, log);
    }
    rtc->nvrtcGetCUBINSize(program, &out->count);
    out->bytes = zr_alloc(out->count + 64, error);
    if (!out->bytes)
        return ZERO_ERR_MEMORY;
    rtc->nvrtcGetCUBIN(program, out->bytes);
    rtc->nvrtcDestroyProgram(&program);
    return ZERO_OK;
}
