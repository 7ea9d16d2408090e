#define _GNU_SOURCE
#include "io_harness.h"

#include <fcntl.h>
#include <sys/mman.h>

uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void fill_randomly(uint64_t *state, char *data, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 8) {
        uint64_t word = draw(state);
        memcpy(data + i, &word, 8);
    }
}

static char *map_bytes(int64_t bytes)
{
    void *base =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    return base;
}

static void use_page_cache(zr_scratch *scratch)
{
    for (int i = 0; i < scratch->count; i++)
        assert_int_equal(
            fcntl(scratch->fds[i], F_SETFL, fcntl(scratch->fds[i], F_GETFL) & ~O_DIRECT), 0);
    scratch->direct = false;
}

static void open_space(vessel *v, shape shape, const zr_io_faults *faults)
{
    char paths[ZR_SCRATCH_MOST_FILES][512];
    const char *directories[ZR_SCRATCH_MOST_FILES];
    void *home = NULL;
    zero_error error = {0};
    shape.directories = ZR_MAX(shape.directories, 1);
    shape.block = shape.block ? shape.block : BLOCK_BYTES;
    shape.stripe = shape.stripe ? shape.stripe : shape.block;
    *v =
        (vessel){.bytes = shape.bytes ? shape.bytes : 4 * BLOCK_BYTES, .random = 88172645463325252};
    assert_int_equal(scratch_open(&home), 0);
    v->home = home;
    for (int i = 0; i < shape.directories; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d", v->home->directory, i);
        assert_int_equal(zr_directory_create(paths[i], NULL), ZERO_OK);
        directories[i] = paths[i];
    }
    if (zr_scratch_create(directories, shape.directories, shape.place + v->bytes, shape.stripe,
                          "vector", faults, &v->scratch, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    if (shape.page_cache)
        use_page_cache(&v->scratch);
    if (zr_io_extents_create(&v->scratch, shape.place, v->bytes, shape.cuts, shape.cut_count,
                             shape.block, &v->extents, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    v->buffer = map_bytes(v->bytes);
    v->expected = calloc(1, (size_t)v->bytes);
}

bool vessel_open(vessel *v, shape shape, zr_io_options options, const kind *kind)
{
    zero_error error = {0};
    open_space(v, shape, options.faults);
    const zr_scratch *scratches[] = {&v->scratch};
    zr_io_buffer buffers[] = {{.base = v->buffer, .bytes = (size_t)v->bytes}};
    options.block = shape.block ? shape.block : BLOCK_BYTES;
    options.queue_depth = options.queue_depth ? options.queue_depth : 8;
    options.lanes = options.lanes ? options.lanes : 1;
    options.threads_only = kind->threads_only;
    options.scratches = scratches;
    options.scratch_count = 1;
    if (!options.buffers) {
        options.buffers = buffers;
        options.buffer_count = 1;
    }
    if (zr_io_create(&options, &v->io, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    bool there =
        kind->threads_only || kind->either || strncmp(zr_io_description(v->io), "io_uring", 8) == 0;
    if (!there)
        print_message("io_uring is NOT tested here: %s\n", zr_io_description(v->io));
    return there;
}

void vessel_close(vessel *v)
{
    void *home = v->home;
    zr_io_destroy(v->io);
    zr_io_extents_destroy(&v->extents);
    zr_scratch_destroy(&v->scratch);
    munmap(v->buffer, (size_t)v->bytes);
    free(v->expected);
    assert_int_equal(scratch_close(&home), 0);
}

zr_io_request request_for(vessel *v, bool write, int begin, int count)
{
    return (zr_io_request){.write = write,
                           .extents = &v->extents,
                           .begin = begin,
                           .count = count,
                           .buffer = v->buffer + v->extents.bounds[begin]};
}

void start_ok(vessel *v, zr_io_request *request)
{
    zero_error error = {0};
    if (zr_io_start(v->io, request, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

void wait_ok(vessel *v, zr_io_request *request)
{
    zero_error error = {0};
    if (zr_io_wait(v->io, request, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

zero_status transfer_all(vessel *v, bool write, zero_error *error)
{
    zr_io_request request = request_for(v, write, 0, v->extents.count);
    start_ok(v, &request);
    return zr_io_wait(v->io, &request, error);
}

void write_all(vessel *v)
{
    zero_error error = {0};
    fill_randomly(&v->random, v->expected, v->bytes);
    memcpy(v->buffer, v->expected, (size_t)v->bytes);
    if (transfer_all(v, true, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

void read_all_back(vessel *v)
{
    zero_error error = {0};
    memset(v->buffer, 0x5a, (size_t)v->bytes);
    if (transfer_all(v, false, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_memory_equal(v->buffer, v->expected, (size_t)v->bytes);
}
