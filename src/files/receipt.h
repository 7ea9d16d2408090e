// receipt.json next to a model: what it was made of and by what, so that somebody who has the same
// can make it again, and zero verify can tell.
//
//   {"format":"libzero receipt
//   1","program":"0.1.0","instructions":"avx2","step":100,"seed":1337,"data":"0123456789abcdef",
//    "weights":{"file":"model.safetensors","bytes":1,"hash":"0123456789abcdef"},"config":{...}}
//
// Hashes are xxh64. model.safetensors itself stays a function of the weights alone.
//
// It is also how libzero knows its own work again, so it is there before the first other file of a
// model, with "weights":null: nothing is said of them yet.
#ifndef ZR_FILES_RECEIPT_H
#define ZR_FILES_RECEIPT_H

#include "base/json.h"

#define ZR_RECEIPT "receipt.json"

typedef struct zr_file_sum {
    int64_t bytes;
    uint64_t hash;
} zr_file_sum;
zero_status zr_file_sum_of(const char *path, zr_file_sum *out, zero_error *error);
// What a training writes into a model's directory first, in the place of the receipt of the weights
// before: nothing else may lie there yet.
zero_status zr_receipt_begin(const char *directory, zero_error *error);
// Of a model that lies in `directory`, once it is whole; rank 0.
typedef struct zr_receipt {
    const char *instructions; // the path that the arithmetic took: "avx2"
    int64_t step, seed;
    const char *data_hash;   // hexadecimal
    const char *config_text; // JSON, with "libzero.run"
} zr_receipt;
zero_status zr_receipt_write(const zr_receipt *receipt, const char *directory, zero_error *error);
bool zr_receipt_is_of_training(const char *directory); // there is one, begun or whole
// Whether directory/model.safetensors is the one that the receipt next to it names. ZERO_ERR_DATA
// with both hashes where it is not; *receipt NULL where there is none, or it says nothing of
// weights; json_decref.
zero_status zr_receipt_check(const char *directory, json_t **receipt, zero_error *error);

#endif
