// Formats numbers for people. Of bytes, with units of 1000: "987 B", "1.05 MB", "12.3 GB".
#ifndef ZR_BASE_BYTES_TEXT_H
#define ZR_BASE_BYTES_TEXT_H

#define ZR_BYTES_TEXT 32

void zr_bytes_text(double bytes, char out[static ZR_BYTES_TEXT]);

#define ZR_SECONDS_TEXT 32

// Formats seconds: "0.123 ms", "12.3 ms", "1.23 s", "12.3 min", "1.23 h".
void zr_seconds_text(double seconds, char out[static ZR_SECONDS_TEXT]);

#endif
