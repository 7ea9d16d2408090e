// What is no text: files of other programs, which begin with bytes with which no text begins, and
// bytes that are no UTF-8.
#ifndef ZR_DATA_NOT_TEXT_H
#define ZR_DATA_NOT_TEXT_H

#include "base/errors.h"

// Refuses a file by its name (tables of .csv and .tsv) and by its first bytes. `what` ("text",
// "JSONL") says what is needed; ZERO_ERR_DATA.
zero_status zr_not_text_name(const char *path, zero_error *error);
zero_status zr_not_text_marks(const char *path, const char *what, const char *data, size_t length,
                              zero_error *error);
// Refuses NULs and what is no UTF-8 in [*at, *at + bytes), and moves *at behind what it has seen. A
// character may be cut at the beginning and at the end of the file, as split cuts it.
zero_status zr_not_text_bytes(const char *path, const char *data, size_t length, size_t bytes,
                              size_t *at, zero_error *error);

#endif
