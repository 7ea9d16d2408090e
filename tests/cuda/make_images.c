// make_images FOLDER CAPABILITY...: compiles each file of kernels for each capability (80, 90) as a
// card does that has not seen it yet, and keeps the images as FOLDER/FILE-smNN.cubin. A line each:
// file, capability, seconds of a processor, bytes, and whether NVRTC compiled it or the cache had
// it; the first line is NVRTC's version. Exit status 1 with a message where an image cannot be
// made, 77 without NVRTC.
#include "base/alloc.h"
#include "cuda/image.h"
#include "cuda/libraries.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds_spent(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static bool keep(const char *folder, const char *file, int capability, const zr_cuda_image *image)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-sm%d.cubin", folder, file, capability);
    FILE *out = fopen(path, "wb");
    bool written = out && fwrite(image->bytes, 1, image->count, out) == image->count;
    if (out && fclose(out))
        written = false;
    if (!written)
        fprintf(stderr, "make_images: %s cannot be written\n", path);
    return written;
}

static bool make(const char *folder, const char *file, int capability)
{
    zr_cuda_image image = {0};
    char warning[ZERO_MESSAGE_BYTES];
    zero_error error;
    const double begin = seconds_spent();
    if (zr_cuda_image_make(file, capability, false, &image, warning, &error) != ZERO_OK) {
        fprintf(stderr, "make_images: %s, sm_%d: %s\n", file, capability, error.message);
        return false;
    }
    printf("%s %d %.2f %zu %s\n", file, capability, seconds_spent() - begin, image.count,
           image.compiled ? "compiled" : "kept");
    if (*warning)
        fprintf(stderr, "make_images: %s\n", warning);
    const bool kept = keep(folder, file, capability, &image);
    zr_free(image.bytes);
    return kept;
}

int main(int count, char **arguments)
{
    int major = 0, minor = 0;
    zero_error error;
    if (count < 3) {
        fprintf(stderr, "usage: make_images FOLDER CAPABILITY...\n");
        return 64;
    }
    const zr_nvrtc *nvrtc = zr_cuda_nvrtc_get(&error);
    if (!nvrtc) {
        fprintf(stderr, "make_images: %s\n", error.message);
        return 77;
    }
    nvrtc->nvrtcVersion(&major, &minor);
    printf("NVRTC %d.%d\n", major, minor);
    for (int i = 2; i < count; i++)
        for (const zr_cuda_text *text = zr_cuda_kernel_texts; text->name; text++)
            if (!make(arguments[1], text->name, atoi(arguments[i])))
                return 1;
    return 0;
}
