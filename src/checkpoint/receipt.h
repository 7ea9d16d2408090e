// receipt.json next to a model: the program, data and configuration that made it, so that anybody
// can make it again from these, and zero verify can check it.
//
//   {"format":"libzero receipt 1","program":"0.1.0","instructions":"avx2","step":100,"seed":1337,
//    "data":"0123456789abcdef",
//    "weights":{"file":"model.safetensors","bytes":1,"hash":"0123456789abcdef"},"config":{...}}
//
// Hashes are xxh64. model.safetensors itself stays a function of the weights alone.
//
// libzero also recognises its own work by the receipt. So the receipt is written before any other
// file of a model, with "weights":null until they are written.
#ifndef ZR_CHECKPOINT_RECEIPT_H
#define ZR_CHECKPOINT_RECEIPT_H

#include "base/json.h"

// Size and content of a file, by which two copies are compared.
typedef struct zr_file_sum {
    int64_t bytes;
    uint64_t hash; // xxh64 of the bytes
} zr_file_sum;

zero_status zr_file_sum_of(const char *path, zr_file_sum *out, zero_error *error);
// Writes the first receipt of a training into a model's directory, in place of that of the earlier
// weights. The directory must have no other file yet.
zero_status zr_receipt_begin(const char *directory, zero_error *error);
// The receipt of a model that lies whole in `directory`; rank 0 writes it.
typedef struct zr_receipt {
    const char *weights;      // the name of their file
    const char *instructions; // the arithmetic's path: "avx2"
    int64_t step, seed;
    const char *data_hash;   // hexadecimal
    const char *config_text; // JSON, with "libzero.run"
} zr_receipt;
zero_status zr_receipt_write(const zr_receipt *receipt, const char *directory, zero_error *error);
bool zr_receipt_is_of_training(const char *directory); // begun or whole
// Checks that directory/model.safetensors is the one that the receipt next to it names.
// ZERO_ERR_DATA with both hashes if it is not. *receipt (json_decref) is NULL if there is none, or
// it has no weights yet.
zero_status zr_receipt_check(const char *directory, json_t **receipt, zero_error *error);

#endif
