// Copies that pass the cache by, because an all-gather writes far more than a cache holds.
#include "compute/tree_sum.h"

#include <string.h>
#if defined(__has_feature)
#define SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
#if defined(__SSE2__) && !SANITIZED // the sanitizers do not see streaming stores
#include <emmintrin.h>
#define STREAMING 1
#else
#define STREAMING 0
#endif

#define PART (256 << 10) // bytes that one thread copies at a time

#if STREAMING
void zr_stream_bytes(void *to, const void *from, int64_t bytes)
{
    char *dst = to;
    const char *src = from;
    int64_t head = ZR_MIN((int64_t)(-(uintptr_t)dst & 15), bytes);
    memcpy(dst, src, (size_t)head);
    int64_t body = (bytes - head) & ~(int64_t)63;
    for (int64_t i = head; i < head + body; i += 64)
        for (int lane = 0; lane < 64; lane += 16)
            _mm_stream_si128((__m128i *)(dst + i + lane),
                             _mm_loadu_si128((const __m128i *)(src + i + lane)));
    memcpy(dst + head + body, src + head + body, (size_t)(bytes - head - body));
    _mm_sfence();
}
#else
void zr_stream_bytes(void *dst, const void *src, int64_t bytes) { memcpy(dst, src, (size_t)bytes); }
#endif

void zr_stream_copy(void *dst, const void *src, int64_t bytes, int threads)
{
    if (bytes == 0) // a shard without elements may have no address
        return;
    if (bytes < ZR_STREAM_FROM) {
        memcpy(dst, src, (size_t)bytes);
        return;
    }
    int64_t parts = (bytes + PART - 1) / PART;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(ZR_MAX(threads, 1))
#endif
    for (int64_t p = 0; p < parts; p++)
        zr_stream_bytes((char *)dst + p * PART, (const char *)src + p * PART,
                        ZR_MIN(PART, bytes - p * PART));
}
