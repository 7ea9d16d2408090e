// Writes TensorBoard's event files. Called by observe/monitors on rank 0.
#define _GNU_SOURCE
#include "monitor/scalar_files.h"

#include "base/file.h"
#include "monitor/append_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_OF_A_NAME = 1000 }; // the most files of one second, host and process

static const char *const tags[ZR_SCALAR_COUNT] = {
#define TAG(name) [ZR_SCALAR_##name] = "Train/Samples/" #name,
    ZR_SCALARS(TAG)
#undef TAG
};

struct zr_event_file {
    zr_append_file tail;
    zr_buffer records; // waiting to be written
};

static double seconds_since_epoch(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// A message under construction. No record of ours is longer.
typedef struct message {
    unsigned char bytes[128];
    size_t length;
} message;

static void put_raw_bytes(message *m, const void *bytes, size_t count)
{
    assert(count <= sizeof m->bytes - m->length);
    memcpy(m->bytes + m->length, bytes, count);
    m->length += count;
}

static void put_byte(message *m, unsigned byte)
{
    put_raw_bytes(m, &(unsigned char){(unsigned char)byte}, 1);
}

static void put_varint(message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(m, (unsigned)(value & 0x7f) | 0x80);
    put_byte(m, (unsigned)value);
}

static void put_double(message *m, unsigned key, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = htole64(bits);
    put_byte(m, key);
    put_raw_bytes(m, &bits, sizeof bits);
}

static void put_float(message *m, unsigned key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = htole32(bits);
    put_byte(m, key);
    put_raw_bytes(m, &bits, sizeof bits);
}

static void put_bytes(message *m, unsigned key, const void *bytes, size_t count)
{
    put_byte(m, key);
    put_varint(m, count);
    put_raw_bytes(m, bytes, count);
}

static void begin_event(message *m, double wall_time, int64_t step)
{
    *m = (message){.length = 0};
    put_double(m, 0x09, wall_time);
    if (!step) // protobuf omits zeros
        return;
    put_byte(m, 0x10);
    put_varint(m, (uint64_t)step);
}

static uint32_t masked_crc(const void *bytes, size_t count)
{
    uint32_t crc = zr_crc32c(0, bytes, count);
    return htole32(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

static void append_record(zr_buffer *out, const message *m)
{
    uint64_t length = htole64(m->length);
    uint32_t of_length = masked_crc(&length, sizeof length),
             of_data = masked_crc(m->bytes, m->length);
    zr_buffer_append(out, &length, sizeof length);
    zr_buffer_append(out, &of_length, sizeof of_length);
    zr_buffer_append(out, m->bytes, m->length);
    zr_buffer_append(out, &of_data, sizeof of_data);
}

void zr_event_append_version(zr_buffer *out, double wall_time)
{
    static const char version[] = "brain.Event:2";
    message event;
    begin_event(&event, wall_time, 0);
    put_bytes(&event, 0x1a, version, sizeof version - 1);
    append_record(out, &event);
}

void zr_event_append_start(zr_buffer *out, double wall_time, int64_t step)
{
    message event;
    begin_event(&event, wall_time, step);
    put_bytes(&event, 0x3a, "\x08\x01", 2);
    append_record(out, &event);
}

void zr_event_append_scalar(zr_buffer *out, double wall_time, int64_t step, const zr_scalar *scalar)
{
    message event, summary = {.length = 0}, value = {.length = 0};
    put_bytes(&value, 0x0a, tags[scalar->name], strlen(tags[scalar->name]));
    put_float(&value, 0x15, (float)scalar->value);
    put_bytes(&summary, 0x0a, value.bytes, value.length);
    begin_event(&event, wall_time, step);
    put_bytes(&event, 0x2a, summary.bytes, summary.length);
    append_record(out, &event);
}

static zero_status write_records(zr_event_file *file, zero_error *error)
{
    return zr_append_file_write(&file->tail, &file->records, error);
}

static zero_status create_unique_file(const char *directory, const char *host, zr_append_file *out,
                                      zero_error *error)
{
    zero_status status = ZERO_ERR_IO;
    for (int n = 0; n < MOST_OF_A_NAME; n++) {
        char *path = zr_sprintf(error, "%s/events.out.tfevents.%010lld.%s.%d.%d", directory,
                                (long long)time(NULL), host, (int)getpid(), n);
        if (!path)
            return ZERO_ERR_MEMORY;
        status = zr_append_file_open(path, O_CREAT | O_EXCL, out, error);
        bool taken = status != ZERO_OK && errno == EEXIST;
        zr_free(path);
        if (!taken)
            break;
    }
    return status;
}

zero_status zr_event_file_open(const char *directory, int64_t done, zr_event_file **out,
                               zero_error *error)
{
    char host[256] = "";
    *out = NULL;
    zr_event_file *file = zr_alloc(sizeof *file, error);
    if (!file)
        return ZERO_ERR_MEMORY;
    file->tail.fd = -1;
    gethostname(host, sizeof host - 1);
    zero_status status =
        create_unique_file(directory, host[0] ? host : "localhost", &file->tail, error);
    if (status == ZERO_OK) {
        zr_event_append_version(&file->records, seconds_since_epoch());
        if (done > 0)
            zr_event_append_start(&file->records, seconds_since_epoch(), done + 1);
        status = write_records(file, error);
    }
    if (status == ZERO_OK)
        *out = file;
    else
        zr_event_file_close(file);
    return status;
}

zero_status zr_event_file_write(zr_event_file *file, int64_t samples, const zr_scalar *scalars,
                                int count, zero_error *error)
{
    double time = seconds_since_epoch();
    for (int i = 0; i < count; i++)
        zr_event_append_scalar(&file->records, time, samples, &scalars[i]);
    return write_records(file, error);
}

void zr_event_file_close(zr_event_file *file)
{
    if (!file)
        return;
    zr_append_file_close(&file->tail);
    zr_buffer_free(&file->records);
    zr_free(file);
}
