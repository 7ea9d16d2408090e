// Base64 with the usual alphabet (RFC 4648): bytes in JSON.
#ifndef ZR_BASE_BASE64_H
#define ZR_BASE_BASE64_H

#include "base/alloc.h"

// Appends the text of the bytes.
void zr_base64_write(const void *bytes, size_t count, zr_buffer *out);
// Appends the bytes of the text. Returns false if it is no base64; out->failed says that memory has
// run out.
bool zr_base64_read(const char *text, size_t length, zr_buffer *out);

#endif
