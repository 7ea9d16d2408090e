#include "engine/muon.h"

#include "base/alloc.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/orthogonal.h"

#include <math.h>
#include <string.h>

typedef struct stretch { // of a matrix, in a vector of this rank
    int flat_param;
    int64_t first, count; // elements of the flat parameter
} stretch;

// What a rank has of a matrix: rectangles of the whole, whose elements follow each other in
// messages. Those that it gives are its shard's; those that it needs are all that it updates.
typedef struct piece {
    int64_t elements, count;
    zr_rectangle *rectangles; // (count)
} piece;

enum { GIVES, NEEDS, SIDES };

typedef struct member { // a rank of the pipeline stage, and a matrix
    piece side[SIDES];
} member;

struct zr_muon {
    zero_engine *engine;
    int ranks, own;   // data and tensor ranks of the pipeline stage
    member *members;  // (matrices, ranks): of others, at the owner alone
    zr_buffer *parts; // (matrices, SIDES) of stretches, of this rank
};

static int job_rank_of(const zr_muon *muon, int rank)
{
    const zr_mesh *mesh = &muon->engine->grid.mesh;
    return mesh->place[ZERO_AXIS_pipeline] * muon->ranks + rank;
}

static member *member_of(const zr_muon *muon, int matrix, int rank)
{
    return &muon->members[(int64_t)matrix * muon->ranks + rank];
}

static const zr_buffer *own_parts(const zr_muon *muon, int matrix, int side)
{
    return &muon->parts[matrix * SIDES + side];
}

// ---- which pieces there are ----

typedef struct listing {
    zr_buffer *parts, *rectangles;
    int flat_param, number;
    int64_t elements;
} listing;

static void list_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    listing *l = user;
    const stretch at = {l->flat_param, first, count};
    if (tensor->number != l->number)
        return;
    zr_buffer_append(l->parts, &at, sizeof at);
    l->elements += count;
    for (int64_t done = 0; done < count;) {
        zr_rectangle rectangle;
        done +=
            zr_tile_rectangle(tensor->desc, first - tensor->first + done, count - done, &rectangle);
        zr_buffer_append(l->rectangles, &rectangle, sizeof rectangle);
    }
}

// Lists one side of this rank's piece of a matrix. Every element is given by one rank.
static zero_status list_own(zr_muon *muon, int matrix, int side, zero_error *error)
{
    zero_engine *engine = muon->engine;
    const zr_plan *plan = engine->plan;
    zr_buffer rectangles = {0};
    listing l = {.parts = &muon->parts[matrix * SIDES + side],
                 .rectangles = &rectangles,
                 .number = plan->matrices[matrix].number};
    for (l.flat_param = 0; l.flat_param < plan->flat_param_count; l.flat_param++) {
        const zr_flat_param *flat_param = &plan->flat_params[l.flat_param];
        if (flat_param->state_first >= 0 && (side == NEEDS || flat_param->counted))
            zr_for_parts(flat_param,
                         side == NEEDS ? zr_update_range(engine, l.flat_param)
                                       : zr_own_shard(engine, l.flat_param),
                         list_part, &l);
    }
    piece *own = &member_of(muon, matrix, muon->own)->side[side];
    *own = (piece){.elements = l.elements,
                   .count = (int64_t)(rectangles.length / sizeof(zr_rectangle)),
                   .rectangles = (zr_rectangle *)(void *)rectangles.data};
    return l.parts->failed || rectangles.failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the pieces of matrices")
               : ZERO_OK;
}

static zero_status send_piece(const zr_muon *muon, const piece *of, int to, zero_error *error)
{
    zero_comm *world = muon->engine->grid.world;
    int64_t head[] = {of->elements, of->count};
    ZERO_TRY(zr_comm_send(world, head, sizeof head, job_rank_of(muon, to), error));
    return of->count
               ? zr_comm_send(world, of->rectangles, of->count * (int64_t)sizeof *of->rectangles,
                              job_rank_of(muon, to), error)
               : ZERO_OK;
}

static zero_status receive_piece(const zr_muon *muon, piece *of, int from, zero_error *error)
{
    zero_comm *world = muon->engine->grid.world;
    int64_t head[2];
    ZERO_TRY(zr_comm_recv(world, head, sizeof head, job_rank_of(muon, from), error));
    of->elements = head[0];
    of->count = head[1];
    of->rectangles = zr_alloc((size_t)of->count * sizeof *of->rectangles + 1, error);
    if (!of->rectangles)
        return ZERO_ERR_MEMORY;
    return of->count
               ? zr_comm_recv(world, of->rectangles, of->count * (int64_t)sizeof *of->rectangles,
                              job_rank_of(muon, from), error)
               : ZERO_OK;
}

static zero_status exchange_pieces(zr_muon *muon, int matrix, zero_error *error)
{
    int owner = muon->engine->plan->matrices[matrix].owner;
    for (int r = 0; r < muon->ranks; r++)
        for (int side = 0; side < SIDES && r != owner; side++) {
            piece *of = &member_of(muon, matrix, r)->side[side];
            if (muon->own == owner)
                ZERO_TRY(receive_piece(muon, of, r, error));
            else if (muon->own == r)
                ZERO_TRY(send_piece(muon, of, owner, error));
        }
    return ZERO_OK;
}

zero_status zr_muon_create(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    const zr_mesh *mesh = &engine->grid.mesh;
    if (!plan->settings.orthogonal)
        return ZERO_OK;
    zr_muon *muon = engine->muon = zr_alloc(sizeof *muon, error);
    if (!muon)
        return ZERO_ERR_MEMORY;
    int tensor = mesh->size[ZERO_AXIS_tensor];
    *muon = (zr_muon){.engine = engine,
                      .ranks = mesh->size[ZERO_AXIS_data] * tensor,
                      .own = mesh->place[ZERO_AXIS_data] * tensor + mesh->place[ZERO_AXIS_tensor]};
    size_t matrices = (size_t)plan->matrix_count;
    muon->members = zr_alloc(matrices * (size_t)muon->ranks * sizeof *muon->members + 1, error);
    muon->parts = zr_alloc(matrices * SIDES * sizeof *muon->parts + 1, error);
    if (!muon->members || !muon->parts)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < plan->matrix_count; i++) {
        ZERO_TRY(list_own(muon, i, GIVES, error));
        ZERO_TRY(list_own(muon, i, NEEDS, error));
        ZERO_TRY(exchange_pieces(muon, i, error));
    }
    return ZERO_OK;
}

void zr_muon_destroy(zr_muon *muon)
{
    if (!muon)
        return;
    int64_t matrices = muon->engine->plan->matrix_count;
    for (int64_t i = 0; i < matrices * muon->ranks && muon->members; i++)
        for (int side = 0; side < SIDES; side++)
            zr_free(muon->members[i].side[side].rectangles);
    for (int64_t i = 0; i < matrices * SIDES && muon->parts; i++)
        zr_buffer_free(&muon->parts[i]);
    zr_free(muon->members);
    zr_free(muon->parts);
    zr_free(muon);
}

// ---- the round ----

typedef struct room { // of ZR_SPACE_MUON
    uint16_t *matrix, *message;
    void *workspace;
} room;

static room room_of(const zero_engine *engine)
{
    char *at = engine->spaces[ZR_SPACE_MUON].at;
    const zr_plan *plan = engine->plan;
    return (room){.matrix = (uint16_t *)(void *)at,
                  .message = (uint16_t *)(void *)(at + plan->matrix_bytes),
                  .workspace = at + 2 * plan->matrix_bytes};
}

// Moves directions between this rank's vectors and a message.
static void move_own(const zr_muon *muon, int matrix, int side, uint16_t *message)
{
    zero_engine *engine = muon->engine;
    const zr_buffer *parts = own_parts(muon, matrix, side);
    zero_dtype states = engine->plan->settings.precision.moments;
    for (size_t at = 0; at < parts->length; at += sizeof(stretch)) {
        const stretch *s = (const stretch *)(const void *)(parts->data + at);
        void *direction = zr_vector_at(engine, s->flat_param, ZR_VECTOR_STATE1,
                                       s->first - zr_update_range(engine, s->flat_param).first);
        bool gives = side == GIVES;
        const zr_conversion conversion = {
            .from = gives ? states : ZERO_BF16, .to = gives ? ZERO_BF16 : states, .n = s->count};
        zr_run(engine->queue, zr_op_convert(&conversion, gives ? direction : message,
                                            gives ? message : direction));
        message += s->count;
    }
}

// Moves a piece between a message and the whole matrix.
static void move_piece(const piece *of, bool into_matrix, uint16_t *matrix, uint16_t *message)
{
    for (int64_t i = 0; i < of->count; i++) {
        const zr_rectangle *r = &of->rectangles[i];
        for (int64_t row = 0; row < r->rows; row++) {
            uint16_t *there = matrix + r->first + row * r->stride;
            memcpy(into_matrix ? there : message, into_matrix ? message : there,
                   (size_t)r->width * sizeof *message);
            message += r->width;
        }
    }
}

static int64_t message_bytes(const piece *of) { return of->elements * (int64_t)sizeof(uint16_t); }

// Moves one side of all pieces of a matrix: what the ranks give to the owner, or what they need of
// its answer.
static zero_status exchange_matrix(zr_muon *muon, int matrix, int side, zero_error *error)
{
    zero_comm *world = muon->engine->grid.world;
    const room room = room_of(muon->engine);
    int owner = muon->engine->plan->matrices[matrix].owner;
    for (int r = 0; r < muon->ranks; r++) {
        const piece *of = &member_of(muon, matrix, r)->side[side];
        int giver = side == GIVES ? r : owner, taker = side == GIVES ? owner : r;
        if (!of->elements || (muon->own != giver && muon->own != taker))
            continue;
        if (muon->own == giver && side == GIVES)
            move_own(muon, matrix, side, room.message);
        else if (muon->own == giver)
            move_piece(of, false, room.matrix, room.message);
        if (giver != taker)
            ZERO_TRY(muon->own == giver ? zr_comm_send(world, room.message, message_bytes(of),
                                                       job_rank_of(muon, taker), error)
                                        : zr_comm_recv(world, room.message, message_bytes(of),
                                                       job_rank_of(muon, giver), error));
        if (muon->own == taker && side == GIVES)
            move_piece(of, true, room.matrix, room.message);
        else if (muon->own == taker)
            move_own(muon, matrix, side, room.message);
    }
    return ZERO_OK;
}

static void compute_matrix(zero_engine *engine, const zr_muon_matrix *matrix)
{
    const room room = room_of(engine);
    const zr_orthogonal of = zr_plan_orthogonal(engine->plan, matrix->rows, matrix->cols);
    zr_orthogonal_run(engine->queue, &of, room.matrix, room.workspace);
}

// Messages of all matrices come in one order on every rank, so none waits for itself.
static zero_status make_orthogonal(zero_engine *engine, zero_error *error)
{
    zr_muon *muon = engine->muon;
    const zr_plan *plan = engine->plan;
    for (int first = 0, end; first < plan->matrix_count; first = end) {
        const zr_muon_matrix *own = NULL;
        for (end = first;
             end < plan->matrix_count && plan->matrices[end].round == plan->matrices[first].round;
             end++) {
            ZERO_TRY(exchange_matrix(muon, end, GIVES, error));
            if (plan->matrices[end].owner == muon->own)
                own = &plan->matrices[end];
        }
        if (own)
            compute_matrix(engine, own);
        for (int i = first; i < end; i++)
            ZERO_TRY(exchange_matrix(muon, i, NEEDS, error));
        zr_comm_progress(engine->grid.world, engine->progress.step);
    }
    return ZERO_OK;
}

// ---- the walks ----

static void momentum_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    const zr_range_states at = zr_update_states_from(walk, first);
    if (!tensor->orthogonal) {
        zr_update_elements(walk, tensor, first, count);
        return;
    }
    walk->update.n = count;
    walk->update.gradient = at.gradient_dtype;
    walk->update.states = at.states_dtype;
    zr_run(walk->queue, zr_op_momentum_direction(&walk->update, walk->values, at.state0,
                                                 at.gradient, at.state1));
}

// Returns what a matrix's step is multiplied by (torch's adjust_lr_fn).
static double shape_factor(const zr_optimizer_spec *spec, const zero_tensor_desc *whole)
{
    double rows = (double)whole->shape[0], cols = (double)whole->shape[1];
    return spec->adjust_lr_fn ? 0.2 * sqrt(fmax(rows, cols)) : sqrt(fmax(1, rows / cols));
}

static void orthogonal_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    zero_engine *engine = walk->engine;
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    const zero_tensor_desc whole = zr_tensor_whole(tensor->desc);
    const zr_range_states at = zr_update_states_from(walk, first);
    double lr = zr_optimizer_rate(spec, true, engine->update.lr);
    float *factors = engine->operands.muon_factors;
    if (!tensor->orthogonal)
        return;
    walk->update.n = count;
    walk->update.states = at.states_dtype;
    walk->update.parameters = at.parameters_dtype;
    factors[0] = (float)(1 - lr * (tensor->decays ? walk->weight_decay : 0));
    factors[1] = (float)(lr * shape_factor(spec, &whole));
    zr_run(walk->queue,
           zr_op_orthogonal_update(&walk->update, factors, at.master, at.state1, at.parameters));
    zr_update_average(walk, count, &at);
}

const zr_update_step zr_muon_steps[2] = {{.part = momentum_part, .end = make_orthogonal},
                                         {.part = orthogonal_part}};
