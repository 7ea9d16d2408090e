// A model of slices is saved from any grid of ranks and loaded to any other: the files are those of
// the whole tensors, whoever wrote them.
//
// Rank r of D x P has the tensor rank r % P, so T/P slices, and of each slice's tensors, laid end
// to end, one of D parts, which begins in the middle of a row.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"
#include "../formats/array_view.h"
#include "../sanitizers.h"
#include "base/dtype.h"
#include "formats/safetensors_write.h"
#include "formats/source.h"
#include "checkpoint/states.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
static const zero_tensor_desc model[] = {
    {.name = "wte.weight", .dims = 2, .shape = {13, 5}, .tp_axis = 0},
    {.name = "ln.weight", .dims = 1, .shape = {5}, .tp_axis = -1},
    {.name = "c_attn.weight", .dims = 2, .shape = {7, 36}, .tp_axis = 1, .tp_parts = 3},
    {.name = "c_attn.bias", .dims = 1, .shape = {36}, .tp_axis = 0, .tp_parts = 3},
    {.name = "c_fc.bias", .dims = 1, .shape = {16}, .tp_axis = 0},
    {.name = "c_fc.weight", .dims = 2, .shape = {2200, 512}, .tp_axis = 1}, // over 1 MiB a slice
    {.name = "few.rows", .dims = 2, .shape = {3, 2}, .tp_axis = 0},    // the last slices are empty
    {.name = "few.columns", .dims = 2, .shape = {4, 3}, .tp_axis = 1}, // here, too
    {.name = "uneven", .dims = 2, .shape = {6, 11}, .tp_axis = 1},
    {.name = "inner", .dims = 3, .shape = {2, 4, 6}, .tp_axis = 1},
    {.name = "wide", .dims = 2, .shape = {3, 4100}, .tp_axis = 1}, // rows of whole pages
};
enum { TENSORS = ZR_COUNT(model), VECTORS = 3, MOST_SLICES = 8, MOST_RANKS = 8 };
enum { MOST_RANGES = 4 * TENSORS * MOST_SLICES, LN = 1, C_FC = 5 };
static const struct {
    const char *name;
    zero_dtype stored, held;
} vectors[VECTORS] = {{"weights", ZERO_F32, ZERO_F32},
                      {"exp_avg", ZERO_F32, ZERO_BF16},
                      {"parameters", ZERO_BF16, ZERO_F32}};

typedef struct grid { // T slices on D x P ranks
    int slices, data, tensor;
} grid;
static const grid grids[] = {{1, 1, 1}, {1, 3, 1}, {2, 1, 1}, {2, 1, 2}, {2, 2, 2}, {4, 1, 1},
                             {4, 1, 4}, {4, 3, 2}, {3, 2, 3}, {8, 1, 8}, {8, 2, 4}, {8, 7, 1}};

static float value_of(int vector, int tensor, int64_t element) // exact in bf16
{
    return (float)((element * 31 + tensor * 7 + vector * 3 + 1) % 251);
}

typedef enum work { SAVE, LOAD, COMPARE, EXPORT, IMPORT } work;

typedef struct job { // what all ranks do together
    work work;
    char path[512];
    grid grid;
    int64_t missing, doubled; // elements of c_fc.weight that rank 0 leaves out; ranks that write ln
    zero_status status[MOST_RANKS];
    zero_error error[MOST_RANKS];
    zr_states_difference difference;
    atomic_int wrong;
} job;

typedef struct rank {
    job *all;
    zero_comm *comm;
    zero_tensor_desc tiles[TENSORS];
    const zero_tensor_desc *list[TENSORS];
    zr_weight_range ranges[VECTORS][MOST_RANGES];
    array_view views[VECTORS];
    zr_state_vector states[VECTORS];
    int count;
} rank;

static zero_tensor_desc slice_of(const zero_tensor_desc *whole, int slice, int slices)
{
    zero_tensor_desc tile = *whole;
    int64_t parts = ZR_MAX(whole->tp_parts, 1), size = whole->shape[whole->tp_axis] / parts,
            step = (size + slices - 1) / slices, first = ZR_MIN(slice * step, size);
    tile.shape[whole->tp_axis] = ZR_MIN(step, size - first) * parts;
    tile.tile = (zero_tile){.whole = whole->name,
                            .axis = whole->tp_axis,
                            .first = first,
                            .size = whole->shape[whole->tp_axis]};
    return tile;
}

// Adds elements [first, first+count) of a tile, or of a whole tensor, to all vectors.
static void add_elements(rank *r, int t, const zero_tensor_desc *tile, int64_t first, int64_t count)
{
    for (int64_t done = 0, taken; done < count; done += taken) {
        zr_weight_range range = {.tensor = &model[t]};
        taken = zr_tile_rectangle(tile, first + done, count - done, &range.at);
        for (int v = 0; v < VECTORS; v++) {
            range.dtype = vectors[v].held;
            range.data = calloc((size_t)taken, sizeof(float));
            r->ranges[v][r->count] = range;
        }
        assert_true(r->count++ < MOST_RANGES);
    }
}

// Adds the part [begin, end) of tiles laid end to end.
static void add_part(rank *r, const zero_tensor_desc *tiles, int64_t begin, int64_t end)
{
    int64_t at = 0;
    for (int t = 0; t < TENSORS; t++) {
        int64_t size = t == LN ? 0 : zr_tensor_desc_elements(&tiles[t]), first = ZR_MAX(begin, at),
                last = ZR_MIN(end, at + size);
        if (t == C_FC && r->comm->rank == 0)
            last -= r->all->missing;
        if (first < last)
            add_elements(r, t, &tiles[t], first - at, last - first);
        at += size;
    }
}

static void add_slice(rank *r, int slice)
{
    const grid *g = &r->all->grid;
    int64_t total = 0, data = r->comm->rank / g->tensor;
    for (int t = 0; t < TENSORS; t++) {
        bool split = g->slices > 1 && model[t].tp_axis >= 0;
        r->tiles[t] = split ? slice_of(&model[t], slice, g->slices) : model[t];
        total += t == LN ? 0 : zr_tensor_desc_elements(&r->tiles[t]);
    }
    add_part(r, r->tiles, total * data / g->data, total * (data + 1) / g->data);
}

static void each_element(rank *r, int vector_count, bool sets)
{
    for (int v = 0; v < vector_count; v++)
        for (int i = 0; i < r->count; i++) {
            const zr_weight_range *range = &r->ranges[v][i];
            size_t size = zero_dtype_bytes(range->dtype);
            for (int64_t e = 0; e < zr_rectangle_elements(&range->at); e++) {
                int t = (int)(range->tensor - model);
                const zr_rectangle *at = &range->at;
                float value =
                          value_of(v, t, at->first + e / at->width * at->stride + e % at->width),
                      found;
                char *place = (char *)range->data + (size_t)e * size;
                if (sets)
                    zr_narrow(range->dtype, &value, 1, place);
                zr_widen(range->dtype, place, 1, &found);
                r->all->wrong += found != value;
            }
        }
}

static zero_status load(rank *r, bool compares, zero_error *error)
{
    zr_manifest manifest;
    zr_states_difference difference = {0};
    ZERO_TRY(zr_manifest_read(r->all->path, &manifest, error));
    zero_status status =
        compares ? zr_states_compare(r->comm, r->all->path, &manifest, r->states, VECTORS,
                                     &difference, error)
                 : zr_states_load(r->comm, r->all->path, &manifest, r->states, VECTORS, error);
    if (r->comm->rank == 0)
        r->all->difference = difference;
    zr_manifest_free(&manifest);
    return status;
}

static zero_status save(rank *r, zero_error *error)
{
    json_t *state = json_pack("{s:i}", "step", 1);
    zero_status status = zr_states_save(r->comm, r->all->path, r->states, VECTORS, state, error);
    json_decref(state);
    return status;
}

static zero_status do_work(rank *r, zero_error *error)
{
    switch (r->all->work) {
    case SAVE: return save(r, error);
    case LOAD: return load(r, false, error);
    case COMPARE: return load(r, true, error);
    case EXPORT: return zr_weights_save(r->comm, r->all->path, "", &r->views->view, error);
    default:
        return zr_weights_load(r->comm, r->all->path, &r->views->view,
                               &(zr_weights_load_options){0}, error);
    }
}

static void *run_rank(void *argument)
{
    rank *r = argument;
    job *all = r->all;
    int me = r->comm->rank, local = all->grid.slices / all->grid.tensor,
        first = me % all->grid.tensor * local;
    bool writes = all->work == SAVE || all->work == EXPORT;
    for (int s = first; s < first + local; s++)
        add_slice(r, s);
    if (!writes || me <= all->doubled) // all hold it, one writes it
        add_elements(r, LN, &model[LN], 0, zr_tensor_desc_elements(&model[LN]));
    for (int t = 0; t < TENSORS; t++)
        r->list[t] = &model[t];
    for (int v = 0; v < VECTORS; v++) {
        array_view_fill(&r->views[v], r->list, TENSORS, r->ranges[v], r->count);
        r->states[v] = (zr_state_vector){
            .name = vectors[v].name, .dtype = vectors[v].stored, .view = r->views[v].view};
    }
    if (all->work != LOAD && all->work != IMPORT)
        each_element(r, VECTORS, true);
    all->status[me] = do_work(r, &all->error[me]);
    if (all->status[me] == ZERO_OK && (all->work == LOAD || all->work == IMPORT))
        each_element(r, all->work == LOAD ? VECTORS : 1, false);
    for (int v = 0; v < VECTORS; v++)
        for (int i = 0; i < r->count; i++)
            free(r->ranges[v][i].data);
    return NULL;
}

static void run(job *all)
{
    int ranks = all->grid.data * all->grid.tensor;
    zero_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    rank *each = calloc((size_t)ranks, sizeof *each);
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 20};
    assert_int_equal(ranks == 1 ? zero_comm_self(comms, NULL)
                                : zero_comm_threads(ranks, &options, comms, NULL),
                     ZERO_OK);
    all->wrong = 0;
    memset(all->error, 0, sizeof all->error);
    for (int r = 0; r < ranks; r++) {
        each[r].all = all;
        each[r].comm = comms[r];
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &each[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    for (int r = 0; r < ranks; r++)
        zero_comm_destroy(comms[r]);
    free(each);
}

static void assert_all_return(const job *all, zero_status status, const char *says)
{
    for (int r = 0; r < all->grid.data * all->grid.tensor; r++)
        if (all->status[r] != status || !strstr(all->error[r].message, says))
            fail_msg("%d slices, rank %d of %d x %d: %s: %s", all->grid.slices, r, all->grid.data,
                     all->grid.tensor, zero_status_name(all->status[r]), all->error[r].message);
    assert_int_equal(all->wrong, 0);
}

static job job_of(scratch *made, work work, const char *name, grid grid)
{
    job all = {.work = work, .grid = grid};
    snprintf(all.path, sizeof all.path, "%s/%s", made->directory, name);
    return all;
}

static void succeeds(scratch *made, work work, const char *name, grid grid)
{
    job all = job_of(made, work, name, grid);
    run(&all);
    assert_all_return(&all, ZERO_OK, "");
    assert_int_equal(all.difference.elements, 0);
}

static void assert_same_file(scratch *made, const char *a, const char *b)
{
    char *data[2];
    size_t length[2];
    assert_int_equal(zr_file_read(scratch_path(made, a), 1 << 28, &data[0], &length[0], NULL), 0);
    assert_int_equal(zr_file_read(scratch_path(made, b), 1 << 28, &data[1], &length[1], NULL), 0);
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(data[0], data[1], length[0]);
    zr_free(data[0]);
    zr_free(data[1]);
}

// The first format is that of checkpoints without rectangles.
static void assert_format(scratch *made, const char *checkpoint, int wanted)
{
    char name[64], head[64], format[64];
    snprintf(name, sizeof name, "%s/" ZR_MANIFEST, checkpoint);
    snprintf(format, sizeof format, "{\"format\":\"libzero checkpoint %d\"", wanted);
    zr_file_head(scratch_path(made, name), head, sizeof head);
    assert_contains(head, format);
}

static void any_grid_to_any_grid(void **state)
{
    scratch *made = *state;
    for (int from = 0; from < ZR_COUNT(grids); from++) {
        succeeds(made, SAVE, from ? "step" : "first", grids[from]);
        assert_format(made, from ? "step" : "first", grids[from].slices > 1 ? 2 : 1);
        if (from) {
            assert_same_file(made, "first/weights.safetensors", "step/weights.safetensors");
            assert_same_file(made, "first/exp_avg.safetensors", "step/exp_avg.safetensors");
            assert_same_file(made, "first/parameters.safetensors", "step/parameters.safetensors");
        }
        for (int to = SANITIZED ? from % 3 : 0; to < ZR_COUNT(grids); to += SANITIZED ? 3 : 1)
            succeeds(made, LOAD, from ? "step" : "first", grids[to]);
        succeeds(made, COMPARE, from ? "step" : "first", grids[(from + 3) % ZR_COUNT(grids)]);
    }
}

static void weights_alone(void **state)
{
    scratch *made = *state;
    for (int i = 0; i < ZR_COUNT(grids); i++) {
        succeeds(made, EXPORT, i ? "other" : "model.safetensors", grids[i]);
        if (i)
            assert_same_file(made, "model.safetensors", "other");
    }
    for (int i = 0; i < ZR_COUNT(grids); i++)
        succeeds(made, IMPORT, "model.safetensors", grids[i]);
}

static void what_is_written_twice_or_never_is_refused(void **state)
{
    scratch *made = *state;
    job hole = job_of(made, SAVE, "step", (grid){4, 1, 4}), twice = hole;
    hole.missing = 3;
    run(&hole);
    assert_all_return(&hole, ZERO_ERR_INTERNAL, "writing weights of");
    assert_contains(hole.error[0].message, "1139203 elements of a model of 1139206");
    twice.doubled = 1;
    run(&twice);
    assert_all_return(&twice, ZERO_ERR_INTERNAL, "1139211 elements of a model of 1139206");
    assert_int_equal(scratch_entries(made->directory), 0);
}

static void flip(const char *path, int64_t at)
{
    char byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

// Returns the largest rectangle of a tensor of the weights.
static zr_direct_extent rectangle_of(const zr_manifest *manifest, const char *tensor)
{
    const zr_manifest_file *file = zr_manifest_find(manifest, "weights.safetensors");
    zr_direct_extent found = {0};
    for (int t = 0; t < file->tensor_count; t++)
        for (int e = 0; e < file->tensors[t].extent_count; e++) {
            zr_direct_extent place =
                zr_manifest_extent_place(file, &file->tensors[t], &file->tensors[t].extents[e]);
            if (!strcmp(file->tensors[t].name, tensor) && place.rows > found.rows)
                found = place;
        }
    assert_true(found.rows > 1);
    return found;
}

static void count_damage(void *user, const zero_error *what)
{
    ++*(int *)user;
    assert_contains(what->message, "c_attn.weight");
    assert_contains(what->message, "weights.safetensors");
}

static zero_status read_all(zr_source *source, int64_t block, zero_error *error)
{
    char *data = malloc((size_t)block);
    zero_status status = ZERO_OK;
    for (int v = 0; v < source->vector_count; v++)
        for (int t = 0; t < source->vectors[v].tensor_count; t++)
            for (int64_t done = 0, n; done < source->vectors[v].tensors[t].bytes; done += n) {
                n = ZR_MIN(block, source->vectors[v].tensors[t].bytes - done);
                zero_status one = zr_source_read(source, v, t, done, n, data, error);
                status = status == ZERO_OK ? one : status;
                bool f32 = !strcmp(source->vectors[v].tensors[t].dtype, "F32");
                for (int64_t e = 0; one == ZERO_OK && e < n / 4 && f32 && block % 4 == 0; e++)
                    assert_true(((float *)(void *)data)[e] == value_of(v, t, done / 4 + e));
            }
    free(data);
    return status;
}

static void damage_is_named(void **state)
{
    scratch *made = *state;
    static const grid readers[] = {{1, 1, 1}, {2, 1, 2}, {4, 1, 1}, {4, 3, 2}};
    zr_manifest manifest;
    zr_source source;
    zero_error error = {0};
    succeeds(made, SAVE, "step", (grid){4, 1, 4});
    assert_int_equal(zr_manifest_read(scratch_path(made, "step"), &manifest, NULL), ZERO_OK);
    const zr_direct_extent place = rectangle_of(&manifest, "c_attn.weight");
    flip(scratch_path(made, "step/weights.safetensors"),
         place.offset + place.rows / 2 * place.stride + place.width / 2);
    for (int i = 0; i < ZR_COUNT(readers); i++) {
        job all = job_of(made, LOAD, "step", readers[i]);
        run(&all);
        all.wrong = 0;
        assert_all_return(&all, ZERO_ERR_DATA, "c_attn.weight");
        assert_contains(all.error[0].message, "step/weights.safetensors\" is damaged");
    }
    int damaged = 0;
    const char *path = scratch_path(made, "step");
    assert_int_equal(zr_manifest_verify(path, &manifest, NULL, NULL, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "c_attn.weight");
    assert_int_equal(zr_manifest_verify_all(path, &manifest, NULL, count_damage, &damaged, &error),
                     0);
    assert_int_equal(damaged, 1);
    assert_int_equal(zr_source_open(path, &source, &error), ZERO_OK);
    assert_int_equal(read_all(&source, 1 << 20, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "c_attn.weight");
    zr_source_close(&source);
    flip(scratch_path(made, "step/weights.safetensors"),
         place.offset + place.rows / 2 * place.stride + place.width / 2);
    assert_int_equal(zr_manifest_verify(scratch_path(made, "step"), &manifest, NULL, NULL, &error),
                     ZERO_OK);
    zr_manifest_free(&manifest);
}

// Bytes of files that were read.
static atomic_llong moved;

ssize_t __real_pread64(int fd, void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pread64(int fd, void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pread64(int fd, void *data, size_t bytes, off64_t offset)
{
    moved += (long long)bytes;
    return __real_pread64(fd, data, bytes, offset);
}

// Whoever reads forward reads each extent once, though several lie next to each other.
static void each_extent_is_read_once(void **state)
{
    scratch *made = *state;
    static const int64_t blocks[] = {1 << 20, 4096, 999};
    zr_source source;
    zero_error error = {0};
    int64_t all = 0;
    succeeds(made, SAVE, "step", (grid){4, 3, 2});
    for (int i = 0; i < ZR_COUNT(blocks); i++) {
        assert_int_equal(zr_source_open(scratch_path(made, "step"), &source, &error), ZERO_OK);
        moved = 0;
        assert_int_equal(read_all(&source, blocks[i], &error), ZERO_OK);
        all = source.file_bytes;
        assert_in_range(moved, all * 9 / 10, all);
        zr_source_close(&source);
    }
    moved = 0;
    succeeds(made, LOAD, "step", grids[0]);
    // with the manifest, and pages around stretches
    assert_in_range(moved, all * 9 / 10, all * 11 / 10);
}

static void extents_are_whole_rectangles(void **state)
{
    scratch *made = *state;
    zr_manifest manifest;
    succeeds(made, SAVE, "step", (grid){4, 1, 4});
    assert_int_equal(zr_manifest_read(scratch_path(made, "step"), &manifest, NULL), ZERO_OK);
    const zr_manifest_file *file = zr_manifest_find(&manifest, "weights.safetensors");
    assert_int_equal(file->tensors[C_FC].extent_count, 2 * 4); // a slice is a little over 1 MiB
    zr_direct_extent large = rectangle_of(&manifest, "c_fc.weight");
    assert_int_equal(zr_direct_extent_bytes(&large), 1 << 20);
    zr_manifest_free(&manifest);
}

static void exports_are_the_same_file(void **state)
{
    scratch *made = *state;
    static const grid writers[] = {{1, 1, 1}, {2, 2, 2}, {4, 1, 1}};
    for (int i = 0; i < ZR_COUNT(writers); i++) {
        char directory[512];
        zr_source source;
        zero_error error;
        snprintf(directory, sizeof directory, "%s/model-%d", made->directory, i);
        assert_int_equal(mkdir(directory, 0777), 0);
        succeeds(made, SAVE, "step", writers[i]);
        assert_int_equal(zr_source_open(scratch_path(made, "step"), &source, &error), ZERO_OK);
        assert_int_equal(zr_export_weights(&source,
                                           &(zr_export){.directory = directory, .dtype = ZERO_BF16},
                                           &error),
                         ZERO_OK);
        zr_source_close(&source);
    }
    assert_same_file(made, "model-0/model.safetensors", "model-1/model.safetensors");
    assert_same_file(made, "model-0/model.safetensors", "model-2/model.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_grid_to_any_grid, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(weights_alone, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(what_is_written_twice_or_never_is_refused, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(damage_is_named, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(each_extent_is_read_once, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(extents_are_whole_rectangles, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(exports_are_the_same_file, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
