#include "checkpoint/receipt.h"

#include "base/file.h"
#include "base/json_writer.h"
#include "base/random.h"
#include "model/architecture.h"
#include "checkpoint/run_directory.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RECEIPT = 1 << 24 }; // in bytes

zero_status zr_file_sum_of(const char *path, zr_file_sum *out, zero_error *error)
{
    zr_mapped_file file;
    ZERO_TRY(zr_file_map(path, &file, error));
    *out = (zr_file_sum){(int64_t)file.length, zr_hash_bytes(file.data, file.length, 0)};
    zr_file_unmap(&file);
    return ZERO_OK;
}

#define TRAINED "libzero receipt 1"
enum { HEAD = 256 }; // in bytes

zero_status zr_receipt_begin(const char *directory, zero_error *error)
{
    zr_buffer text = {0};
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "format", TRAINED);
    zr_json_null(&w, "weights");
    zr_json_finish(&w);
    return zr_file_write_text_in(directory, ZR_RECEIPT, &text, error);
}

bool zr_receipt_is_of_training(const char *directory)
{
    char head[HEAD], *path = zr_sprintf(NULL, "%s/" ZR_RECEIPT, directory);
    bool is = path && zr_file_head(path, head, sizeof head) && strstr(head, "\"" TRAINED "\"");
    zr_free(path);
    return is;
}

static const char *hex_of_hash(uint64_t hash, char out[static 20])
{
    snprintf(out, 20, "%016llx", (unsigned long long)hash);
    return out;
}

static json_t *describe_receipt(const zr_receipt *receipt, const zr_file_sum *weights)
{
    char hash[20];
    json_t *config = json_loads(receipt->config_text, 0, NULL);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:{s:s, s:I, s:s}, s:o}", "format", TRAINED,
                     "program", zero_version(), "instructions", receipt->instructions, "step",
                     (json_int_t)receipt->step, "seed", (json_int_t)receipt->seed, "data",
                     receipt->data_hash, "weights", "file", receipt->weights, "bytes",
                     (json_int_t)weights->bytes, "hash", hex_of_hash(weights->hash, hash), "config",
                     config ? config : json_null());
}

zero_status zr_receipt_write(const zr_receipt *receipt, const char *directory, zero_error *error)
{
    zr_file_sum weights;
    char *model = zr_sprintf(error, "%s/%s", directory, receipt->weights);
    zero_status status = model ? zr_file_sum_of(model, &weights, error) : ZERO_ERR_MEMORY;
    json_t *object = status == ZERO_OK ? describe_receipt(receipt, &weights) : NULL;
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    if (status == ZERO_OK)
        status =
            text ? zr_file_write_in(directory, ZR_RECEIPT, text, strlen(text), error)
                 : zr_fail(error, ZERO_ERR_MEMORY, "no memory for the receipt of \"%s\"", model);
    free(text);
    json_decref(object);
    zr_free(model);
    return status;
}

static zero_status check_weights_hash(const char *directory, const json_t *receipt,
                                      zero_error *error)
{
    const json_t *weights = json_object_get(receipt, "weights");
    const char *file = json_string_value(json_object_get(weights, "file")),
               *stated = json_string_value(json_object_get(weights, "hash"));
    char found[20];
    zr_file_sum sum;
    if (!file || !stated || strchr(file, '/'))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s/" ZR_RECEIPT "\" names no weights and their hash", directory);
    char *path = zr_sprintf(error, "%s/%s", directory, file);
    zero_status status = path ? zr_file_sum_of(path, &sum, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && strcmp(hex_of_hash(sum.hash, found), stated))
        status = zr_fail(error, ZERO_ERR_DATA,
                         "\"%s\" is not what its receipt says: its hash is %s, not %s", path, found,
                         stated);
    zr_free(path);
    return status;
}

zero_status zr_receipt_check(const char *directory, json_t **receipt, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/" ZR_RECEIPT, directory);
    *receipt = NULL;
    zero_status status = path ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && zr_path_exists(path)) {
        status = zr_json_load(path, MOST_RECEIPT, receipt, error);
        if (status == ZERO_OK && json_is_null(json_object_get(*receipt, "weights"))) {
            json_decref(*receipt);
            *receipt = NULL;
        }
        if (*receipt && status == ZERO_OK)
            status = check_weights_hash(directory, *receipt, error);
    }
    zr_free(path);
    return status;
}
