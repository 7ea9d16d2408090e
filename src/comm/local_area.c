#include "comm/local_area.h"

#include "comm/communicator.h"

static int64_t sent_at(int ranks)
{
    return (int64_t)(sizeof(zr_area) + sizeof(zr_area_rank) * (size_t)ranks);
}

static int64_t taken_at(int ranks)
{
    return sent_at(ranks) + (int64_t)sizeof(uint64_t) * ranks * ranks;
}

static int64_t small_at(int ranks)
{
    return ZR_ROUND_UP(taken_at(ranks) + (int64_t)sizeof(uint64_t) * ranks * ranks, ZR_PAGE);
}

static int64_t mail_at(int ranks)
{
    return small_at(ranks) + 2 * (int64_t)ranks * ZR_COMM_SMALL_BYTES;
}

int64_t zr_area_bytes(int ranks) { return mail_at(ranks) + 2 * (int64_t)ranks * ZR_MAIL_BYTES; }

_Atomic uint64_t *zr_area_sent(zr_area *area, int ranks, int from, int to)
{
    return (_Atomic uint64_t *)((char *)area + sent_at(ranks)) + (int64_t)from * ranks + to;
}

_Atomic uint64_t *zr_area_taken(zr_area *area, int ranks, int from, int to)
{
    return (_Atomic uint64_t *)((char *)area + taken_at(ranks)) + (int64_t)to * ranks + from;
}

char *zr_area_small(zr_area *area, int ranks, int rank, int parity)
{
    return (char *)area + small_at(ranks) + (2 * (int64_t)rank + parity) * ZR_COMM_SMALL_BYTES;
}

char *zr_area_mail(zr_area *area, int ranks, int rank, int buffer)
{
    return (char *)area + mail_at(ranks) + (2 * (int64_t)rank + buffer) * ZR_MAIL_BYTES;
}
