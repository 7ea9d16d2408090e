// Each rank adds two numbers for each tensor of the whole, and one all-reduce adds up those of all
// ranks.
//
// covered: a tile [first, end) that counts by its rank adds point(end) - point(first), where points
//          are random numbers but for point(0) = 0 and point(size) = COMPLETE. The sum is COMPLETE
//          if tiles follow each other from 0 to size; if two overlap, or something is missing
//          between them, the points in between remain.
// alike:   of h ranks that share a piece, the first adds h - 1 times the hash of its tile, and each
//          other one subtracts the hash of its own; the hash also depends on who shares. The sum is
//          0 if they hold the same.
#include "engine/parts_check.h"

#include "base/alloc.h"
#include "base/random.h"
#include "comm/agree.h"
#include "model/unit.h"

enum { AT_ONCE = ZR_COMM_SMALL_BYTES / sizeof(int64_t), MOST_SAID = 8 };
static const uint64_t COMPLETE = 0x9e3779b97f4a7c15ull;

typedef struct held { // what a rank has of one tensor
    int64_t tiles;    // 0: nothing of it
    int64_t axis;     // of the first tile; -1: it is all of the tensor
    int64_t first, end, size;
    int64_t holders;
} held;
enum { HELD_NUMBERS = sizeof(held) / sizeof(int64_t) };
_Static_assert(HELD_NUMBERS *ZERO_MAX_RANKS <= AT_ONCE, "what all ranks have is one message");

static bool is_all(const zero_tensor_desc *tensor)
{
    const zero_tile *tile = &tensor->tile;
    return !tile->whole || tensor->shape[tile->axis] == tile->size;
}

static int64_t size_of(const zero_tensor_desc *tensor)
{
    return tensor->tile.size / zr_tensor_parts(tensor);
}

static int64_t end_of(const zero_tensor_desc *tensor)
{
    return tensor->tile.first + tensor->shape[tensor->tile.axis] / zr_tensor_parts(tensor);
}

static uint64_t point(const zero_tensor_desc *tensor, int64_t at)
{
    const int64_t words[] = {tensor->tile.axis, zr_tensor_parts(tensor), at};
    if (at == 0)
        return 0;
    return at == size_of(tensor) ? COMPLETE : zr_hash_bytes(words, sizeof words, COMPLETE);
}

static uint64_t covered_by(const zero_tensor_desc *tensor)
{
    return is_all(tensor) ? COMPLETE
                          : point(tensor, end_of(tensor)) - point(tensor, tensor->tile.first);
}

static uint64_t alike_by(const zr_piece *piece, const zero_tensor_desc *tensor, int rank)
{
    int64_t words[] = {piece->holders, rank / piece->holders, -1, 0, 0, 0};
    if (!is_all(tensor)) {
        words[2] = tensor->tile.axis;
        words[3] = zr_tensor_parts(tensor);
        words[4] = tensor->tile.first;
        words[5] = end_of(tensor);
    }
    uint64_t hash = zr_hash_bytes(words, sizeof words, 0);
    return rank % piece->holders == 0 ? (uint64_t)(piece->holders - 1) * hash : -hash;
}

// Writes this rank's two numbers of each tensor: covered, then alike.
static void add_up(const zr_plan *plan, uint64_t *numbers)
{
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        for (int t = 0; t < piece->tensor_count; t++) {
            const zr_plan_tensor *tensor = &piece->tensors[t];
            uint64_t *of = numbers + 2 * (size_t)tensor->number;
            of[0] += piece->counted ? covered_by(tensor->desc) : 0;
            of[1] += alike_by(piece, tensor->desc, plan->tensor_rank);
        }
    }
}

static held held_of(const zr_plan *plan, int number)
{
    held mine = {0};
    for (int p = 0; p < plan->piece_count; p++)
        for (int t = 0; t < plan->pieces[p].tensor_count; t++) {
            const zr_plan_tensor *tensor = &plan->pieces[p].tensors[t];
            if (tensor->number != number || mine.tiles++ > 0)
                continue;
            mine.holders = plan->pieces[p].holders;
            mine.axis = -1;
            if (is_all(tensor->desc))
                continue;
            mine.axis = tensor->desc->tile.axis;
            mine.first = tensor->desc->tile.first;
            mine.end = end_of(tensor->desc);
            mine.size = size_of(tensor->desc);
        }
    return mine;
}

typedef struct fault { // what ranks have of a tensor that their parts do not make up
    const zero_comm *tensor;
    const held *ranks; // (tensor->size)
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

// Counts the ranks by which a number along the axis counts.
static int times_of(const fault *f, int64_t number)
{
    int times = 0;
    for (int r = 0; r < f->tensor->size; r++) {
        const held *h = &f->ranks[r];
        bool has = h->tiles > 0 && (h->axis < 0 || (h->first <= number && number < h->end));
        times += has && r % h->holders == 0;
    }
    return times;
}

// Returns the first number that does not count by one rank: a tile begins or ends there.
static int64_t first_wrong(const fault *f)
{
    int64_t wrong = times_of(f, 0) == 1 ? f->size : 0;
    for (int r = 0; r < f->tensor->size; r++) {
        const int64_t ends[] = {f->ranks[r].first, f->ranks[r].end};
        for (int i = 0; i < 2; i++)
            if (ends[i] < wrong && times_of(f, ends[i]) != 1)
                wrong = ends[i];
    }
    return wrong;
}

static void say_rank(const fault *f, int r, zr_buffer *text)
{
    const held *h = &f->ranks[r];
    zr_buffer_printf(text, "%s rank %d has ", r ? "," : "", zr_comm_job_rank(f->tensor, r));
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
    zr_buffer_printf(text, " (holders %lld)", (long long)h->holders);
}

static void say_ranks(const fault *f, zr_buffer *text)
{
    for (int r = 0; r < f->tensor->size && r < MOST_SAID; r++)
        say_rank(f, r, text);
    if (f->tensor->size > MOST_SAID)
        zr_buffer_printf(text, ", ...");
}

static bool all_have_all(const fault *f)
{
    bool all = true;
    for (int r = 0; r < f->tensor->size; r++)
        all = all && f->ranks[r].tiles == 1 && f->ranks[r].axis < 0;
    return all;
}

// Says what is wrong with a tensor of which sharers have the same, and what would be right.
static void say_count(const fault *f, zr_buffer *text)
{
    int ranks = f->tensor->size;
    if (all_have_all(f)) {
        zr_buffer_printf(text,
                         "; what all of them have needs zero_piece_desc.holders %d, or 0 in a "
                         "piece without tiles",
                         ranks);
        return;
    }
    if (f->size > 0) {
        int64_t wrong = first_wrong(f);
        int times = times_of(f, wrong);
        zr_buffer_printf(text, "; number %lld counts by %d of them", (long long)wrong, times);
    }
    zr_buffer_printf(text, "; each element has to be on one rank, or on all "
                           "zero_piece_desc.holders neighbours that share its piece");
}

static zero_status refuse(const fault *f, bool alike, zero_error *error)
{
    zr_buffer text = {0};
    say_ranks(f, &text);
    if (alike)
        say_count(f, &text);
    else
        zr_buffer_printf(&text, "; neighbours that share a piece have the same zero_piece_desc."
                                "holders and the same tiles; others have holders 1");
    zero_status status =
        text.failed
            ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to say what is wrong with a model's parts")
            : zr_fail(error, ZERO_ERR_USAGE,
                      "the parts of tensor ranks do not make up model %s: of tensor \"%s\"%s",
                      f->model, f->name, text.data);
    zr_buffer_free(&text);
    return status;
}

// Finds out what all ranks have of a tensor, and says it.
static zero_status describe(zero_comm *tensor, const zr_plan *plan, int number, bool alike,
                            zero_error *error)
{
    held *ranks = zr_alloc((size_t)tensor->size * sizeof *ranks, error);
    if (!ranks)
        return ZERO_ERR_MEMORY;
    ranks[tensor->rank] = held_of(plan, number);
    zero_status status = zr_comm_all_reduce_small(tensor, ranks, HELD_NUMBERS * tensor->size,
                                                  ZERO_I64, ZR_SUM, error);
    const fault f = {.tensor = tensor,
                     .ranks = ranks,
                     .name = zr_model_tensor(plan->model->whole, number)->name,
                     .model = plan->model->whole->name,
                     .size = size_along(ranks, tensor->size)};
    if (status == ZERO_OK)
        status = refuse(&f, alike, error);
    zr_free(ranks);
    return status;
}

static zero_status compare(zero_comm *tensor, const zr_plan *plan, uint64_t *numbers,
                           zero_error *error)
{
    int64_t count = 2 * (int64_t)plan->tensor_count;
    add_up(plan, numbers);
    for (int64_t at = 0; at < count; at += AT_ONCE)
        ZERO_TRY(zr_comm_all_reduce_small(tensor, numbers + at, ZR_MIN(count - at, AT_ONCE),
                                          ZERO_I64, ZR_SUM, error));
    for (int i = 0; i < plan->tensor_count; i++)
        if (numbers[2 * i] != COMPLETE || numbers[2 * i + 1] != 0)
            return describe(tensor, plan, i, numbers[2 * i + 1] == 0, error);
    return ZERO_OK;
}

zero_status zr_parts_check(const zr_grid *grid, const zr_plan *plan, zero_error *error)
{
    if (!grid->tensor || !plan->model->whole)
        return ZERO_OK;
    uint64_t *numbers = zr_alloc(2 * (size_t)plan->tensor_count * sizeof *numbers, error);
    zero_status status = numbers ? compare(grid->tensor, plan, numbers, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_ERR_MEMORY) // the others wait for this rank
        zero_comm_abort(grid->world, "no memory to compare the parts of a model");
    zr_free(numbers);
    return zr_comm_agree(grid->world, status, error);
}
