#include "formats/torch_file.h"

#include "base/alloc.h"
#include "base/file.h"
#include "formats/safetensors.h"

#include <string.h>

#define VALUES "data.pkl"

// *out is NULL if there is no such record.
static zero_status find_optional_record(const zr_torch_file *file, const char *name,
                                        const char *key, const zr_zip_record **out,
                                        zero_error *error)
{
    char *path = zr_sprintf(error, "%s%s%s", file->prefix, name, key);
    *out = path ? zr_zip_find(&file->zip, path) : NULL;
    zr_free(path);
    return path ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status find_needed_record(const zr_torch_file *file, const char *name, const char *key,
                                      const zr_zip_record **out, zero_error *error)
{
    ZERO_TRY(find_optional_record(file, name, key, out, error));
    if (!*out)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has no record \"%s%s%s\": is it a file of torch.save?",
                       file->zip.path, file->prefix, name, key);
    return ZERO_OK;
}

// Finds the folder that holds all records of the archive; its name is the writer's choice.
static zero_status find_prefix(zr_torch_file *file, zero_error *error)
{
    for (int i = 0; i < file->zip.count && !file->prefix; i++) {
        const char *name = file->zip.records[i].name, *slash = strchr(name, '/');
        if (slash && !strcmp(slash + 1, VALUES) &&
            !(file->prefix = zr_sprintf(error, "%.*s", (int)(slash - name) + 1, name)))
            return ZERO_ERR_MEMORY;
    }
    return file->prefix ? ZERO_OK
                        : zr_fail(error, ZERO_ERR_DATA,
                                  "\"%s\" has no record " VALUES ": is it a file of torch.save?",
                                  file->zip.path);
}

static zero_status read_record(const zr_torch_file *file, const zr_zip_record *record, size_t most,
                               char **out, zero_error *error)
{
    if (record->bytes < 0 || (uint64_t)record->bytes > most)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": record \"%s\" has %lld bytes, more than the %zu that are read",
                       file->zip.path, record->name, (long long)record->bytes, most);
    *out = zr_alloc((size_t)record->bytes + 1, error);
    return *out ? zr_file_pread(file->zip.fd, *out, (size_t)record->bytes, record->begin,
                                file->zip.path, error)
                : ZERO_ERR_MEMORY;
}

static zero_status check_order(const zr_torch_file *file, zero_error *error)
{
    const zr_zip_record *record;
    char *text = NULL;
    ZERO_TRY(find_optional_record(file, "byteorder", "", &record, error));
    if (!record) // torch before 2.1 did not write it
        return ZERO_OK;
    zero_status status = read_record(file, record, 16, &text, error);
    if (status == ZERO_OK && strcmp(text, "little"))
        status =
            zr_fail(error, ZERO_ERR_UNSUPPORTED,
                    "\"%s\" has the byte order \"%s\": only little is read", file->zip.path, text);
    zr_free(text);
    return status;
}

static zero_status read_values(zr_torch_file *file, zero_error *error)
{
    const zr_zip_record *record;
    char *text = NULL;
    ZERO_TRY(find_prefix(file, error));
    ZERO_TRY(check_order(file, error));
    ZERO_TRY(find_needed_record(file, VALUES, "", &record, error));
    zero_status status = read_record(file, record, ZR_PICKLE_MOST_BYTES, &text, error);
    if (status == ZERO_OK)
        status = zr_pickle_read(text, (size_t)record->bytes, file->zip.path, &file->pickle, error);
    zr_free(text);
    return status;
}

zero_status zr_torch_open(const char *path, zr_torch_file *out, zero_error *error)
{
    *out = (zr_torch_file){0};
    ZERO_TRY(zr_zip_open(path, &out->zip, error));
    zero_status status = read_values(out, error);
    if (status != ZERO_OK)
        zr_torch_close(out);
    return status;
}

void zr_torch_close(zr_torch_file *file)
{
    zr_zip_close(&file->zip);
    zr_pickle_free(&file->pickle);
    zr_free(file->prefix);
    *file = (zr_torch_file){0};
}

zero_status zr_torch_verify(const zr_torch_file *file, void (*progress)(void *user, int64_t bytes),
                            void (*damaged)(void *user, const zero_error *what), void *user,
                            zero_error *error)
{
    zero_error local = {0};
    error = error ? error : &local;
    zero_status status = zr_zip_verify(&file->zip, progress, user, error);
    if (status != ZERO_ERR_DATA && status != ZERO_ERR_IO)
        return status;
    damaged(user, error);
    return ZERO_OK;
}

zero_status zr_torch_position(const zr_torch_file *file, const zr_pickle_tensor *tensor,
                              const char *what, int64_t *begin, zero_error *error)
{
    const zr_zip_record *record;
    int64_t bytes, size = zr_st_dtype_find(tensor->storage->dtype)->bits / 8;
    ZERO_TRY(find_needed_record(file, "data/", tensor->storage->key, &record, error));
    if (__builtin_mul_overflow(tensor->storage->elements, size, &bytes) || bytes != record->bytes)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "\"%s\": %s lies in a storage of %lld elements of %s, its record \"%s\" has %lld bytes",
            file->zip.path, what, (long long)tensor->storage->elements, tensor->storage->dtype,
            record->name, (long long)record->bytes);
    if (!tensor->contiguous)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\": the elements of %s do not lie one after another", file->zip.path,
                       what);
    *begin = record->begin + tensor->offset * size;
    return ZERO_OK;
}
