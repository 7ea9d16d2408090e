// Images of kernels: they are kept in the cache and taken from there, anew where what is kept is
// damaged or of something else; and what is said where there can be no cache. image.c is built with
// this program, with images in the folder "ready".
#define _GNU_SOURCE
#include "cuda/image.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cuda/kernels/kernels.h"
#include "cuda/libraries.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char place[] = "/tmp/images-XXXXXX"; // the current folder, and the cache's

static zr_nvrtc *compiler(void) // of which tests replace functions
{
    zero_error error = {0};
    const zr_nvrtc *found = zr_cuda_nvrtc_get(&error);
    if (!found)
        fail_msg("%s", error.message);
    return (zr_nvrtc *)found;
}

static zr_cuda_image make(const char *file, int capability, char *warning)
{
    zr_cuda_image image;
    zero_error error = {0};
    if (zr_cuda_image_make(file, capability, false, &image, warning, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_true(image.count > 0);
    return image;
}

// Makes an image, and checks whether it was compiled and whether there was a warning.
static void check(const char *file, int capability, bool compiled, const char *warns)
{
    char warning[ZERO_MESSAGE_BYTES];
    zr_cuda_image image = make(file, capability, warning);
    assert_int_equal(image.compiled, compiled);
    if (warns ? !strstr(warning, warns) : *warning != 0)
        fail_msg("the warning is \"%s\"", warning);
    zr_free(image.bytes);
}

// Returns the number of kept images, and the path of the last.
static int kept(char path[300])
{
    int count = 0;
    DIR *folder = opendir("libzero");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') {
            assert_true(strncmp(entry->d_name, "kernels-", 8) == 0 &&
                        strcmp(entry->d_name + strlen(entry->d_name) - 6, ".cubin") == 0);
            snprintf(path, 300, "libzero/%s", entry->d_name);
            count++;
        }
    if (folder)
        closedir(folder);
    return count;
}

static int forget(void **state)
{
    zr_directory_remove("libzero", NULL);
    zr_directory_remove("ready", NULL);
    setenv("XDG_CACHE_HOME", place, 1);
    return 0;
}

static void an_image_is_compiled_once(void **state)
{
    char warning[ZERO_MESSAGE_BYTES], path[300];
#define CHECK_FILE(file)                                                                           \
    {                                                                                              \
        zr_cuda_image first = make(#file, 90, warning), then = make(#file, 90, warning);           \
        assert_true(first.compiled && !then.compiled && !*warning);                                \
        assert_int_equal(first.count, then.count);                                                 \
        assert_memory_equal(first.bytes, then.bytes, first.count);                                 \
        zr_free(first.bytes);                                                                      \
        zr_free(then.bytes);                                                                       \
    }
    ZR_CUDA_FILES(CHECK_FILE)
#define ONE(file) +1
    assert_int_equal(kept(path), 0 ZR_CUDA_FILES(ONE));
}

static zr_nvrtc_result later_version(int *major, int *minor)
{
    *major = 13;
    *minor = 7;
    return 0;
}

static void what_differs_lies_elsewhere(void **state)
{
    char path[300];
    zr_nvrtc before = *compiler();
    check("elements", 90, true, NULL);
    check("elements", 80, true, NULL);
    assert_int_equal(kept(path), 2);
    check("rows", 80, true, NULL);
    assert_int_equal(kept(path), 3);
    compiler()->nvrtcVersion = later_version;
    check("rows", 80, true, NULL);
    assert_int_equal(kept(path), 4);
    *compiler() = before;
    check("rows", 80, false, NULL);
}

static void replace(const char *path, const char *data, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void what_is_damaged_is_made_anew(void **state)
{
    char path[300], *whole;
    size_t length;
    check("states", 90, true, NULL);
    assert_int_equal(kept(path), 1);
    assert_int_equal(zr_file_read(path, 1 << 26, &whole, &length, NULL), ZERO_OK);
    for (size_t at = 0; at < length; at++) { // each byte of it
        whole[at] ^= 1;
        replace(path, whole, length);
        check("states", 90, true, "was damaged");
        check("states", 90, false, NULL);
        whole[at] ^= 1;
    }
    for (size_t cut = 0; cut < length; cut += 1 + length / 40) {
        replace(path, whole, cut);
        check("states", 90, true, "was damaged");
        check("states", 90, false, NULL);
    }
    assert_int_equal(kept(path), 1);
    zr_free(whole);
}

static void without_a_cache_it_is_compiled(void **state)
{
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    check("rows", 90, true, "anew each time");
    check("rows", 90, true, "anew each time");
    char path[300];
    setenv("XDG_CACHE_HOME", place, 1);
    assert_int_equal(kept(path), 0);
}

static void images_of_the_build_are_taken(void **state)
{
    char path[300], *data;
    size_t length;
    zr_nvrtc before = *compiler();
    check("rows", 90, true, NULL);
    assert_int_equal(kept(path), 1);
    assert_int_equal(zr_file_read(path, 1 << 26, &data, &length, NULL), ZERO_OK);
    assert_int_equal(zr_directory_remove("libzero", NULL), ZERO_OK);
    assert_int_equal(zr_directory_create("ready", NULL), ZERO_OK);
    replace("ready/rows-sm_90.cubin", data, length);
    replace("ready/elements-sm_90.cubin", data, length);
    compiler()->nvrtcVersion = later_version; // whatever compiled them
    check("rows", 90, false, NULL);
    assert_int_equal(kept(path), 0);
    check("rows", 80, true, NULL);
    check("elements", 90, true, "is not used"); // it is of other kernels
    *compiler() = before;
    zr_free(data);
}

static zr_nvrtc_result refuse_to_compile(zr_nvrtc_program program, int count,
                                         const char *const *options)
{
    return 6;
}

static const char complaint[] = "rows.cu(3): error: identifier \"nonsense\" is undefined";

static zr_nvrtc_result size_complaint(zr_nvrtc_program program, size_t *bytes)
{
    *bytes = sizeof complaint;
    return 0;
}

static zr_nvrtc_result write_complaint(zr_nvrtc_program program, char *log)
{
    memcpy(log, complaint, sizeof complaint);
    return 0;
}

static void a_failure_has_the_compilers_words(void **state)
{
    char warning[ZERO_MESSAGE_BYTES], path[300];
    zr_cuda_image image;
    zero_error error = {0};
    zr_nvrtc before = *compiler();
    compiler()->nvrtcCompileProgram = refuse_to_compile;
    compiler()->nvrtcGetProgramLogSize = size_complaint;
    compiler()->nvrtcGetProgramLog = write_complaint;
    assert_int_not_equal(zr_cuda_image_make("rows", 90, false, &image, warning, &error), ZERO_OK);
    *compiler() = before;
    assert_non_null(strstr(error.message, complaint));
    assert_non_null(strstr(error.message, "sm_90"));
    assert_null(image.bytes);
    assert_int_equal(kept(path), 0);
    assert_int_not_equal(zr_cuda_image_make("nonsense", 90, false, &image, warning, &error),
                         ZERO_OK);
}

static void failing_allocations_fail_it(void **state)
{
    char warning[ZERO_MESSAGE_BYTES];
    zr_cuda_image image;
    int64_t nth = 1;
    zero_status status = ZERO_ERR_MEMORY;
    for (; nth < 100; nth++) {
        int64_t before = zr_alloc_count();
        forget(NULL);
        zr_alloc_fail_at(nth);
        status = zr_cuda_image_make("rows", 90, false, &image, warning, NULL);
        zr_alloc_fail_at(0);
        if (status == ZERO_OK)
            zr_free(image.bytes);
        if (zr_alloc_count() - before < nth)
            break;
    }
    assert_int_equal(status, ZERO_OK);
    assert_in_range(nth, 3, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_image_is_compiled_once, forget),
        cmocka_unit_test_setup(what_differs_lies_elsewhere, forget),
        cmocka_unit_test_setup(what_is_damaged_is_made_anew, forget),
        cmocka_unit_test_setup(without_a_cache_it_is_compiled, forget),
        cmocka_unit_test_setup(images_of_the_build_are_taken, forget),
        cmocka_unit_test_setup(a_failure_has_the_compilers_words, forget),
        cmocka_unit_test_setup(failing_allocations_fail_it, forget),
    };
    if (!mkdtemp(place) || chdir(place))
        return 99;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (chdir("/") == 0)
        zr_directory_remove(place, NULL);
    return failed;
}
