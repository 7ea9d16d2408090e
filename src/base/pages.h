// Backs memory with pages before it is needed: page faults happen here, and a shortage of memory is
// reported here.
#ifndef ZR_BASE_PAGES_H
#define ZR_BASE_PAGES_H

#include "base/errors.h"

// Backs base[0..bytes) of a writable mapping with pages; a large range uses several of the cores
// that this process may use (clearing pages is bound by memory, and on a virtual machine by its
// host). The content stays as it is. Returns 0 or an errno.
int zr_pages_populate(void *base, size_t bytes);

#define ZR_LARGE_PAGE ((size_t)2 << 20)
// Returns the first address in memory[0..bytes + ZR_LARGE_PAGE) at which a large page may begin,
// and asks for large pages for `bytes` from there on. A disk takes a block in large pages at once,
// and splits it into many pieces otherwise.
char *zr_pages_large(char *memory, size_t bytes);

#endif
