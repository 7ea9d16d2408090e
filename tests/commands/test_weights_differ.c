// Ranks that see other weights than rank 0 under the same name are refused. Large files are
// compared by their sizes and by blocks that the seed selects.
#define _GNU_SOURCE
#include "../formats/st_files.h"
#include "base/random.h"
#include "../formats/array_view.h"

#include <pthread.h>

#define RANKS 2
#define BLOCKS (2 * ZR_SAMPLED_BLOCKS) // of 4 KiB: twice as many as are looked at
#define ELEMENTS ((int64_t)BLOCKS * 1024 - 512)

typedef struct rank {
    zero_comm *comm;
    const char *directory; // with RANK.safetensors
    uint64_t seed;
    zero_status status;
    zero_error error;
} rank;

static void *load(void *argument)
{
    rank *own = argument;
    array_view view;
    char path[300];
    array_view_fill(&view, NULL, 0, NULL, 0);
    snprintf(path, sizeof path, "%s/%d.safetensors", own->directory, own->comm->rank);
    own->status = zr_weights_load(own->comm, path, &view.view,
                                  &(zr_weights_load_options){.seed = own->seed, .ignored = true},
                                  &own->error);
    return NULL;
}

// Of a model without tensors: nothing but the comparison decides.
static void loaded(const scratch *made, uint64_t seed, zero_status wanted)
{
    zero_comm *comms[RANKS];
    pthread_t threads[RANKS];
    rank ranks[RANKS];
    const zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 20};
    assert_int_equal(zero_comm_threads(RANKS, &options, comms, NULL), ZERO_OK);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (rank){.comm = comms[r], .directory = made->directory, .seed = seed};
        assert_int_equal(pthread_create(&threads[r], NULL, load, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    for (int r = 0; r < RANKS; r++) {
        zero_comm_destroy(comms[r]);
        if (ranks[r].status != wanted)
            fail_msg("rank %d: %s: %s", r, zero_status_name(ranks[r].status),
                     ranks[r].error.message);
    }
}

// Zeros, and a last block that is not whole.
static void write_zeros(scratch *made, const char *name, int64_t elements)
{
    char header[128];
    int length = snprintf(header + 8, sizeof header - 8,
                          "{\"x\":{\"dtype\":\"F32\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                          (long long)elements, (long long)elements * 4);
    memcpy(header, &(uint64_t){(uint64_t)length}, 8);
    st_write_bytes(made, name, header, 8 + (size_t)length);
    assert_int_equal(truncate(made->path, 8 + length + elements * 4), 0);
}

static bool is_seen(uint64_t seed, uint64_t block)
{
    for (uint64_t i = 0; i < ZR_SAMPLED_BLOCKS; i++)
        if (zr_permute(seed, i, BLOCKS) == block)
            return true;
    return false;
}

static void the_seed_says_which_blocks(void **state)
{
    scratch *made = *state;
    uint64_t block = 1, seed = 1;
    while (is_seen(0, block))
        block++;
    while (!is_seen(seed, block))
        seed++;
    write_zeros(made, "0.safetensors", ELEMENTS);
    write_zeros(made, "1.safetensors", ELEMENTS);
    int fd = open(made->path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, (off_t)block * 4096), 1);
    close(fd);
    loaded(made, 0, ZERO_OK);
    loaded(made, seed, ZERO_ERR_USAGE);
}

static void sizes_differ_where_no_block_does(void **state)
{
    scratch *made = *state;
    uint64_t seed = 0;
    while (is_seen(seed, 0) || is_seen(seed, BLOCKS - 1)) // the header, and the end
        seed++;
    write_zeros(made, "0.safetensors", ELEMENTS);
    write_zeros(made, "1.safetensors", ELEMENTS - 1);
    loaded(made, seed, ZERO_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_seed_says_which_blocks, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(sizes_differ_where_no_block_does, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
