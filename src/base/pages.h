// Memory that is there before it is needed: page faults happen here, and where memory is short it
// is said here.
#ifndef ZR_BASE_PAGES_H
#define ZR_BASE_PAGES_H

#include "base/errors.h"

// Backs base[0..bytes) of a writable mapping with pages, large ones on several of the cores this
// process may use (clearing pages is bound by memory, and on a virtual machine by its host).
// Contents stay as they are. 0, or an errno.
int zr_pages_populate(void *base, size_t bytes);

#define ZR_LARGE_PAGE ((size_t)2 << 20)
// The first address in memory[0..bytes + ZR_LARGE_PAGE) at which a large page may begin; asks for
// such pages for `bytes` from there on. A disk takes a block in them at once that is many pieces
// otherwise.
char *zr_pages_large(char *memory, size_t bytes);

#endif
