// Formats a number of bytes for people, with units of 1000: "987 B", "1.05 MB", "12.3 GB".
#ifndef ZR_BASE_BYTES_TEXT_H
#define ZR_BASE_BYTES_TEXT_H

#define ZR_BYTES_TEXT 32

void zr_bytes_text(double bytes, char out[static ZR_BYTES_TEXT]);

#endif
