// Checks, when an engine is made, that the parts of a model that tensor ranks and pipeline stages
// hold make up the whole. A rank's plan knows only its own part, and nothing later would show it: a
// job with a tile too few or one too many trains to wrong weights.
//
// Each rank adds two numbers for each tensor of the whole, and one all-reduce adds up those of its
// tensor ranks. Where there are pipeline stages, tensor ranks together have only a part, so covered
// is added up over the whole job; the ranks of data rank 0 stand for the others there, because data
// ranks of one part compare their whole plans.
//
// covered: a tile [first, end) that counts by its rank adds random_point_of(end) -
//          random_point_of(first): random numbers, but 0 at 0 and COMPLETE at the size. The sum is
//          COMPLETE if tiles follow each other from 0 to the size; if two overlap, or something is
//          missing between them, the points in between remain.
// alike:   of h ranks that share a flat parameter, the first adds h - 1 times the hash of its
//          tile, and each other one subtracts the hash of its own; the hash also depends on who
//          shares. The sum is 0 if they hold the same.
#include "base/alloc.h"
#include "base/random.h"
#include "comm/agreement.h"
#include "engine/create.h"
#include "engine/update.h"
#include "model/unit.h"

#include <string.h>

enum { AT_ONCE = ZR_COMM_SMALL_BYTES / sizeof(int64_t), MOST_SAID = 8 };
static const uint64_t COMPLETE = 0x9e3779b97f4a7c15ull;

typedef struct held { // what a rank has of one tensor
    int64_t tiles;    // 0: nothing of it
    int64_t axis;     // of the first tile; -1: it is all of the tensor
    int64_t first, end, size;
    int64_t replicas;
} held;
enum { HELD_NUMBERS = sizeof(held) / sizeof(int64_t) };
_Static_assert(HELD_NUMBERS *ZERO_MAX_RANKS <= AT_ONCE, "what all ranks have is one message");

typedef struct tile { // in one of the parts of a tensor
    int64_t axis;     // -1: it is all of the tensor, and the rest is 0
    int64_t parts, first, end, size;
} tile;

static tile tile_of(const zero_tensor_desc *tensor)
{
    const zero_tile *own = &tensor->tile;
    int64_t parts = zr_tensor_parts(tensor);
    if (!own->whole || tensor->shape[own->axis] == own->size)
        return (tile){.axis = -1};
    return (tile){own->axis, parts, own->first, own->first + tensor->shape[own->axis] / parts,
                  own->size / parts};
}

static uint64_t random_point_of(const tile *tile, int64_t at)
{
    const int64_t words[] = {tile->axis, tile->parts, at};
    if (at == 0)
        return 0;
    return at == tile->size ? COMPLETE : zr_hash_bytes(words, sizeof words, COMPLETE);
}

static uint64_t covered_number_of_tile(const tile *tile)
{
    return tile->axis < 0 ? COMPLETE
                          : random_point_of(tile, tile->end) - random_point_of(tile, tile->first);
}

static uint64_t alike_number_of_rank(const zr_flat_param *flat_param, const tile *tile, int rank)
{
    const int64_t words[] = {flat_param->replicas, rank / flat_param->replicas,
                             tile->axis,           tile->parts,
                             tile->first,          tile->end};
    uint64_t hash = zr_hash_bytes(words, sizeof words, 0);
    return rank % flat_param->replicas == 0 ? (uint64_t)(flat_param->replicas - 1) * hash : -hash;
}

// Writes this rank's two numbers of each tensor: covered of all of them, then alike.
static void add_own_parts(const zr_plan *plan, uint64_t *numbers)
{
    uint64_t *alike = numbers + plan->tensor_count;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        for (int t = 0; t < flat_param->tensor_count; t++) {
            int number = flat_param->tensors[t].number;
            const tile tile = tile_of(flat_param->tensors[t].desc);
            numbers[number] += flat_param->counted ? covered_number_of_tile(&tile) : 0;
            alike[number] += alike_number_of_rank(flat_param, &tile, plan->tensor_rank);
        }
    }
}

static held held_part_of_tensor(const zr_plan *plan, int number)
{
    held mine = {0};
    for (int p = 0; p < plan->flat_param_count; p++)
        for (int t = 0; t < plan->flat_params[p].tensor_count; t++) {
            const zr_plan_tensor *tensor = &plan->flat_params[p].tensors[t];
            bool other = tensor->number != number || plan->flat_params[p].tied_copy;
            if (other || mine.tiles++ > 0)
                continue;
            const tile tile = tile_of(tensor->desc);
            mine = (held){1,        tile.axis, tile.first,
                          tile.end, tile.size, plan->flat_params[p].replicas};
        }
    return mine;
}

typedef struct fault { // what ranks have of a tensor that their parts do not make up
    const zr_grid *grid;
    // They are those of data rank 0 in all pipeline stages, one stage after another; else this
    // rank's tensor ranks.
    bool of_job;
    const held *ranks; // (count)
    int count;
    const char *name;
    const char *model;
    int64_t size; // along the axis of all tiles; 0: they are along several, or there are none
} fault;

static int64_t size_along(const held *ranks, int count)
{
    const held *tile = NULL;
    for (int r = 0; r < count; r++) {
        if (ranks[r].tiles > 1)
            return 0;
        if (ranks[r].tiles == 0 || ranks[r].axis < 0)
            continue;
        if (tile && (tile->axis != ranks[r].axis || tile->size != ranks[r].size))
            return 0;
        tile = &ranks[r];
    }
    return tile ? tile->size : 0;
}

// Counts the ranks that count an index along the axis.
static int count_ranks_with_element(const fault *f, int64_t number)
{
    int times = 0;
    for (int r = 0; r < f->count; r++) {
        const held *h = &f->ranks[r];
        bool has = h->tiles > 0 && (h->axis < 0 || (h->first <= number && number < h->end));
        times += has && r % h->replicas == 0;
    }
    return times;
}

// Returns the first index that is not counted by exactly one rank: a tile begins or ends there.
static int64_t first_miscounted_element(const fault *f)
{
    int64_t wrong = count_ranks_with_element(f, 0) == 1 ? f->size : 0;
    for (int r = 0; r < f->count; r++) {
        const int64_t ends[] = {f->ranks[r].first, f->ranks[r].end};
        for (int i = 0; i < 2; i++)
            if (ends[i] < wrong && count_ranks_with_element(f, ends[i]) != 1)
                wrong = ends[i];
    }
    return wrong;
}

// Returns the rank of the job that f->ranks[r] describes.
static int job_rank(const fault *f, int r)
{
    const zr_mesh *mesh = &f->grid->mesh;
    int place[ZERO_AXIS_COUNT], tensor = mesh->size[ZERO_AXIS_tensor];
    memcpy(place, mesh->place, sizeof place);
    place[ZERO_AXIS_tensor] = r % tensor;
    if (f->of_job) {
        place[ZERO_AXIS_data] = 0;
        place[ZERO_AXIS_pipeline] = r / tensor;
    }
    return zr_comm_job_rank(f->grid->world, zr_mesh_rank(mesh, place));
}

static void say_rank(const fault *f, int r, zr_buffer *text)
{
    const held *h = &f->ranks[r];
    zr_buffer_printf(text, "%s rank %d has ", r ? "," : "", job_rank(f, r));
    if (h->tiles == 0)
        zr_buffer_printf(text, "nothing");
    else if (h->axis < 0)
        zr_buffer_printf(text, "all");
    else if (h->first == h->end)
        zr_buffer_printf(text, "an empty tile");
    else
        zr_buffer_printf(text, "%lld to %lld of %lld along dimension %lld", (long long)h->first,
                         (long long)h->end - 1, (long long)h->size, (long long)h->axis);
    if (h->tiles > 1)
        zr_buffer_printf(text, " and %lld more", (long long)h->tiles - 1);
    zr_buffer_printf(text, " (replicas %lld)", (long long)h->replicas);
}

// Says what is wrong with a tensor that kv replicas share, and what would be right.
static void append_count_fault(const fault *f, zr_buffer *text)
{
    bool all_hold_all = true;
    for (int r = 0; r < f->count; r++)
        all_hold_all = all_hold_all && f->ranks[r].tiles == 1 && f->ranks[r].axis < 0;
    if (all_hold_all) {
        zr_buffer_printf(text,
                         "; what all of them have needs zero_flat_param_desc.replicas %d, or 0 in "
                         "a flat parameter without tiles",
                         f->count);
        return;
    }
    if (f->size > 0) {
        int64_t wrong = first_miscounted_element(f);
        zr_buffer_printf(text, "; number %lld counts by %d of them", (long long)wrong,
                         count_ranks_with_element(f, wrong));
    }
    zr_buffer_printf(text,
                     "; each element has to be on one rank, or on all "
                     "zero_flat_param_desc.replicas neighbours that share its flat parameter");
}

static zero_status refuse_parts(const fault *f, bool alike, zero_error *error)
{
    zr_buffer text = {0};
    for (int r = 0; r < f->count && r < MOST_SAID; r++)
        say_rank(f, r, &text);
    if (f->count > MOST_SAID)
        zr_buffer_printf(&text, ", ...");
    if (alike)
        append_count_fault(f, &text);
    else
        zr_buffer_printf(&text, "; neighbours that share a flat parameter have the same "
                                "zero_flat_param_desc.replicas and the same tiles; others have "
                                "replicas 1");
    zero_status status =
        text.failed
            ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to say what is wrong with a model's parts")
            : zr_fail(error, ZERO_ERR_USAGE,
                      "the parts of %stensor ranks do not make up model %s: of tensor \"%s\"%s",
                      f->of_job ? "pipeline stages and " : "", f->model, f->name, text.data);
    zr_buffer_free(&text);
    return status;
}

// Collects what the tensor ranks, or those of the job, have of a tensor, and describes it.
static zero_status collect_and_refuse_parts(const zr_grid *grid, bool of_job, const zr_plan *plan,
                                            int number, bool alike, zero_error *error)
{
    const zr_mesh *mesh = &grid->mesh;
    int tensor = mesh->size[ZERO_AXIS_tensor], stage = of_job ? mesh->place[ZERO_AXIS_pipeline] : 0;
    int count = of_job ? tensor * mesh->size[ZERO_AXIS_pipeline] : tensor;
    held *ranks = zr_alloc((size_t)count * sizeof *ranks, error);
    if (!ranks)
        return ZERO_ERR_MEMORY;
    if (!of_job || mesh->place[ZERO_AXIS_data] == 0)
        ranks[stage * tensor + mesh->place[ZERO_AXIS_tensor]] = held_part_of_tensor(plan, number);
    zero_status status = zr_comm_all_reduce_small(of_job ? grid->world : grid->tensor, ranks,
                                                  HELD_NUMBERS * count, ZERO_I64, ZR_SUM, error);
    const fault f = {.grid = grid,
                     .of_job = of_job,
                     .ranks = ranks,
                     .count = count,
                     .name = zr_tensor_name(zr_model_tensor(plan->model->whole, number)),
                     .model = plan->model->whole->name,
                     .size = size_along(ranks, count)};
    if (status == ZERO_OK)
        status = refuse_parts(&f, alike, error);
    zr_free(ranks);
    return status;
}

// With pipeline stages, all ranks find the same faults of coverage and describe them together;
// faults of likeness are found and described within a tensor group.
static zero_status compare_ranks(const zr_grid *grid, const zr_plan *plan, bool staged,
                                 uint64_t *numbers, zero_error *error)
{
    int64_t count = plan->tensor_count;
    uint64_t *alike = numbers + count;
    if (staged && grid->mesh.place[ZERO_AXIS_data] > 0)
        memset(numbers, 0, (size_t)count * sizeof *numbers);
    if (staged)
        ZERO_TRY(zr_sum_words(grid->world, numbers, count, 1, error));
    if (grid->tensor)
        ZERO_TRY(zr_sum_words(grid->tensor, staged ? alike : numbers, staged ? count : 2 * count, 1,
                              error));
    for (int i = 0; i < count; i++)
        if (numbers[i] != COMPLETE || (!staged && alike[i] != 0))
            return collect_and_refuse_parts(grid, staged, plan, i, staged || alike[i] == 0, error);
    for (int i = 0; i < count; i++)
        if (alike[i] != 0)
            return collect_and_refuse_parts(grid, false, plan, i, false, error);
    return ZERO_OK;
}

zero_status zr_parts_check(const zr_grid *grid, const zr_plan *plan, zero_error *error)
{
    bool staged = grid->mesh.size[ZERO_AXIS_pipeline] > 1;
    if ((!grid->tensor && !staged) || !plan->model->whole)
        return ZERO_OK;
    uint64_t *numbers = zr_alloc(2 * (size_t)plan->tensor_count * sizeof *numbers, error);
    zero_status status = ZERO_ERR_MEMORY;
    if (numbers) {
        add_own_parts(plan, numbers);
        status = compare_ranks(grid, plan, staged, numbers, error);
    }
    if (status == ZERO_ERR_MEMORY) // the others wait for this rank
        zero_comm_abort(grid->world, "no memory to compare the parts of a model");
    zr_free(numbers);
    return zr_comm_agree(grid->world, status, error);
}
