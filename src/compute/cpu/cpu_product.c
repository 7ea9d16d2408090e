// Our own matrix products (Goto and van de Geijn, Anatomy of High-Performance Matrix
// Multiplication, 2008), in fp32 or in pairs of bf16, for every path except where oneDNN computes
// them: fp32 with AVX-512, bf16 with tiles. Products of up to eight rows are in cpu_product_thin.c.
//
// D is cut into cells, one per thread, and a cell into strips of columns; a strip is computed block
// by block of k:
//
//   B(depth, columns) -> panels in the last-level cache    each panel stays in the first-level
//   A(rows, depth)    -> panels in the second-level cache  cache while all panels of A pass by it,
//                                                          tile after tile
//
// Each worker packs what it needs into its own part of queue->scratch. Where k is cut, sums wait in
// D if D is fp32, else in a buffer of the worker.
//
// Invariant: see cpu_product_tile.h. The bits of D depend only on the operands: on no cut, no
// thread and no address.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_product_codes.h"
#include "compute/cpu/cpu_product_finish.h"
#include "compute/cpu/cpu_product_pack.h"
#include "compute/cpu/cpu_product_pack_b.h"

#define BLOCK_ROWS 192                        // a multiple of MR
#define BLOCK_COLUMNS 1536                    // a multiple of every NR
#define BLOCK_DEPTH (LANES == 16 ? 192 : 256) // words
// Rows whose sums wait at the same time; a multiple of BLOCK_ROWS.
#define PART_ROWS 768
// Up to this many rows of D, B is packed in small blocks, which stay in the second-level cache.
#define FEW_ROWS 32
#define FEW_COLUMNS 768
#define FEW_DEPTH 64
#define CELL_LEAST (1 << 19) // multiply-adds worth a thread

typedef struct cut {                 // depends only on the product and the number of threads
    int64_t down, across;            // cells
    int64_t cell_rows, cell_columns; // the last ones may be smaller
    // Sizes of blocks. part: rows of a strip whose sums wait in a buffer; 0: they wait in D.
    int64_t rows, columns, depth, part;
    // Floats of a worker's scratch.
    int64_t a_floats, row_floats, b_floats, part_floats, codes_floats;
} cut;

typedef struct job {
    zr_operands of;
    cut cut;
    float *scratch;
} job;

typedef struct block { // a part of D, for one block of k
    const job *job;
    int64_t i, j, rows, columns; // of D
    int64_t depth;               // words
    // fresh: the sums begin with zero. last: they are complete at its end.
    bool fresh, last;
    // Where the sums from element (i, j) on wait, in rows cut.columns apart; NULL: in D.
    float *part;
} block;

// Returns the size of equal parts of `total`: a multiple of `unit`, at most `most`, which is a
// multiple, too.
static int64_t even_part(int64_t total, int64_t most, int64_t unit)
{
    int64_t parts = ZR_MAX(1, (total + most - 1) / most);
    return ZR_MAX(unit, ZR_ROUND_UP((total + parts - 1) / parts, unit));
}

static int64_t cell_size(int64_t total, int64_t cells, int64_t unit)
{
    return ZR_MAX(unit, ZR_ROUND_UP((total + cells - 1) / cells, unit));
}

// Returns what the largest cell computes and packs per step of k, in multiply-adds of vectors.
static int64_t grid_cost(const zr_product *p, int64_t down, int64_t across)
{
    int64_t rows = cell_size(p->m, down, MR), columns = cell_size(p->n, across, NR);
    int64_t strips = (columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    return rows * columns / LANES + rows * strips * (p->gelu_a ? 8 : 2) + columns * 2;
}

static void grid_choose(const zr_product *p, int threads, cut *out)
{
    int64_t worth = (int64_t)((double)p->m * (double)p->n * (double)p->k / CELL_LEAST),
            least = INT64_MAX;
    int64_t cells = ZR_MAX(1, ZR_MIN(threads, worth));
    for (int64_t down = 1; down <= cells; down++) {
        int64_t across = cells / down, cost = grid_cost(p, down, across);
        if (cost >= least)
            continue;
        least = cost;
        out->down = down;
        out->across = across;
    }
}

static void cut_measure(const zr_product *p, cut *c)
{
    c->codes_floats = p->format ? NR * c->depth : 0;
    c->a_floats = c->rows / MR * A_PANEL(c->depth);
    c->row_floats = LANES * ZR_ROUND_UP(c->rows, LANES);
    c->b_floats = c->columns * c->depth;
    c->part_floats = c->part * c->columns;
}

// Returns the most that a block takes of a product.
static cut cut_limits(const zr_product *p)
{
    cut c = {.rows = BLOCK_ROWS, .columns = BLOCK_COLUMNS, .depth = BLOCK_DEPTH};
    if (p->m > FEW_ROWS)
        return c;
    c.columns = p->trans_b ? FEW_COLUMNS * FEW_DEPTH / BLOCK_DEPTH / NR * NR : FEW_COLUMNS;
    c.depth = p->trans_b ? BLOCK_DEPTH : FEW_DEPTH;
    return c;
}

static cut cut_choose(const zr_product *p, int threads)
{
    cut c = cut_limits(p);
    grid_choose(p, threads, &c);
    c.cell_rows = cell_size(p->m, c.down, MR);
    c.cell_columns = cell_size(p->n, c.across, NR);
    c.rows = even_part(c.cell_rows, c.rows, MR);
    c.columns = even_part(c.cell_columns, c.columns, NR);
    c.depth = even_part(steps_of(p), c.depth, 16);
    c.part = p->out != ZERO_F32 && steps_of(p) > c.depth ? ZR_MIN(c.cell_rows, PART_ROWS) : 0;
    cut_measure(p, &c);
    return c;
}

// Returns at least what every product of these n and k with at most m rows takes, so that the plan
// for a micro-batch suffices for a smaller one.
static cut cut_largest(const zr_product *p)
{
    cut c = cut_limits(p);
    c.rows = ZR_MIN(c.rows, ZR_ROUND_UP(p->m, MR));
    c.columns = ZR_MIN(c.columns, ZR_ROUND_UP(p->n, NR));
    c.depth = ZR_MIN(c.depth, ZR_ROUND_UP(ZR_MAX(steps_of(p), 1), 16));
    c.part =
        p->out != ZERO_F32 && steps_of(p) > c.depth ? ZR_MIN(PART_ROWS, ZR_ROUND_UP(p->m, MR)) : 0;
    cut_measure(p, &c);
    return c;
}

static int64_t worker_floats(const cut *c)
{
    return ZR_ROUND_UP(c->a_floats + c->row_floats + c->b_floats + c->part_floats + c->codes_floats,
                       2 * LANES);
}

typedef void tile_function(const float *a, const float *b, int64_t depth, bool fresh, float *sums,
                           int64_t step, const float *bias);

#define TILE_FUNCTION(name, pairs, vectors)                                                        \
    static void name(const float *a, const float *b, int64_t depth, bool fresh, float *sums,       \
                     int64_t step, const float *bias)                                              \
    {                                                                                              \
        tile_sum(pairs, vectors, a, b, depth, fresh, sums, step, bias);                            \
    }
TILE_FUNCTION(tile_sum_1, false, 1)
TILE_FUNCTION(tile_sum_2, false, 2)
TILE_FUNCTION(tile_sum_whole, false, VECTORS)
#if HAS_PAIRS
TILE_FUNCTION(tile_pairs_1, true, 1)
TILE_FUNCTION(tile_pairs_2, true, 2)
TILE_FUNCTION(tile_pairs_whole, true, VECTORS)
#endif

static tile_function *tile_function_of(const zr_product *p, int64_t columns)
{
#if HAS_PAIRS
    if (in_pairs(p))
        return columns <= LANES       ? tile_pairs_1
               : columns <= 2 * LANES ? tile_pairs_2
                                      : tile_pairs_whole;
#endif
    return columns <= LANES ? tile_sum_1 : columns <= 2 * LANES ? tile_sum_2 : tile_sum_whole;
}

static void copy_tile(const float *from, int64_t from_step, int64_t rows, int64_t columns,
                      float *to, int64_t to_step)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_step, from + r * from_step, sizeof(float) * (size_t)columns);
}

// Computes the tile at element (i, j) of D, whose sums pass through a copy because the tile is not
// whole, or D is not fp32.
static void multiply_copied(const block *at, int64_t i, int64_t j, int64_t rows, int64_t columns,
                            const float *a, const float *b)
{
    int64_t n = at->job->of.product->n;
    float tile[MR * NR] __attribute__((aligned(64)));
    float *d = (float *)at->job->of.d + i * n + j;
    if (!at->fresh) {
        memset(tile, 0, sizeof tile);
        copy_tile(d, n, rows, columns, tile, NR);
    }
    tile_function_of(at->job->of.product, columns)(a, b, at->depth, at->fresh, tile, NR, NULL);
    if (at->last)
        sums_finish(&at->job->of, i, j, rows, columns, tile, NR);
    else
        copy_tile(tile, NR, rows, columns, d, n);
}

static void prefetch_floats(const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i += 16)
        __builtin_prefetch(from + i);
}

// Fetches the tile after the one that is about to be computed, because the cache has forgotten it
// since its last use.
static void prefetch_tile(const float *sums, int64_t step)
{
    for (int64_t r = 0; r < MR; r++) {
        __builtin_prefetch(sums + r * step, 1);
        __builtin_prefetch(sums + r * step + NR - 1, 1);
    }
}

// Multiplies one panel of B, whose columns begin at column j of the block, by all panels of A.
static void multiply_panel(const block *at, int64_t j, int64_t columns, const float *a,
                           const float *b)
{
    const zr_product *p = at->job->of.product;
    int64_t step = at->part ? at->job->cut.columns : p->n, panel = A_PANEL(at->depth),
            panels = (at->rows + MR - 1) / MR;
    // Floats of the next panel of B that are fetched with each tile.
    int64_t ahead = (at->depth + panels - 1) / panels * NR;
    bool in_d = !at->part && p->out == ZERO_F32 && columns % LANES == 0;
    const float *bias = NULL;
    if (in_d && at->last && p->epilogue == ZR_EPILOGUE_BIAS && p->dtype == ZERO_F32)
        bias = (const float *)at->job->of.operand + at->j + j;
    bool finish = at->last && !bias && (at->part || p->epilogue != ZR_EPILOGUE_NONE);
    float *sums = at->part ? at->part + j
                  : in_d   ? (float *)at->job->of.d + at->i * step + at->j + j
                           : NULL;
    tile_function *sum = tile_function_of(p, columns);
    for (int64_t i = 0; i < at->rows; i += MR, a += panel) {
        int64_t rows = ZR_MIN(MR, at->rows - i);
        prefetch_floats(b + at->depth * NR + i / MR * ahead, ahead);
        if (!at->part && (!in_d || rows < MR)) {
            multiply_copied(at, at->i + i, at->j + j, rows, columns, a, b);
            continue;
        }
        float *to = sums + i * step;
        prefetch_tile(to + MR * step, step);
        sum(a, b, at->depth, at->fresh, to, step, bias);
        if (finish)
            sums_finish(&at->job->of, at->i + i, at->j + j, rows, columns, to, step);
    }
}

static void multiply_block(const block *at, const float *a, const float *b)
{
    int64_t columns;
    for (int64_t j = 0; j < at->columns; j += columns, b += NR * at->depth) {
        columns = panel_columns(at->columns - j);
        multiply_panel(at, j, columns, a, b);
    }
}

// Packs a B in codes panel by panel, each widened into `wide` first.
INLINE void pack_codes_as(zero_dtype type, bool pairs, const job *work, int64_t j, int64_t columns,
                          int64_t t, int64_t depth, float *to, float *wide)
{
    const zr_product *p = work->of.product;
    for (int64_t c = 0, width; c < columns; c += width, to += NR * words_of(pairs, depth)) {
        width = panel_columns(columns - c);
        if (p->trans_b) {
            codes_widen(type, &work->of, j + c, width, t, depth, wide);
            pack_b_rows(type, pairs, wide, 0, depth, width, depth, to);
        } else {
            codes_widen(type, &work->of, t, depth, j + c, width, wide);
            pack_b_steps(type, pairs, wide, 0, width, width, depth, to);
        }
    }
}

INLINE void pack_b_as(zero_dtype type, bool pairs, const job *work, int64_t j, int64_t columns,
                      int64_t t, int64_t depth, float *to, float *wide)
{
    const zr_product *p = work->of.product;
    if (p->format) {
        pack_codes_as(type, pairs, work, j, columns, t, depth, to, wide);
        return;
    }
    if (p->trans_b)
        pack_b_rows(type, pairs, work->of.b, j * p->k + t, p->k, columns, depth, to);
    else
        pack_b_steps(type, pairs, work->of.b, t * p->n + j, p->n, columns, depth, to);
}

static void pack_b(const job *work, int64_t j, int64_t columns, int64_t t, int64_t depth, float *to,
                   float *wide)
{
    if (HAS_PAIRS && in_pairs(work->of.product))
        pack_b_as(ZERO_BF16, true, work, j, columns, t, depth, to, wide);
    else
        WITH_TYPE(TYPE, work->of.product->dtype,
                  pack_b_as(TYPE, false, work, j, columns, t, depth, to, wide));
}

// Computes rows i .. i+rows-1 of columns j .. j+columns-1; if their sums do not wait in D, they all
// wait in the buffer at the same time.
static void multiply_strip(const job *work, int64_t i, int64_t j, int64_t rows, int64_t columns,
                           float *scratch)
{
    const cut *c = &work->cut;
    const zr_product *p = work->of.product;
    const bool pairs = in_pairs(p);
    const int64_t of_word = pairs ? 2 : 1, steps = steps_of(p); // elements of k in a word; words
    float *a = scratch, *row = a + c->a_floats, *b = row + c->row_floats, *part = b + c->b_floats,
          *wide = part + c->part_floats;
    for (int64_t t = 0; t < steps || t == 0; t += c->depth) {
        int64_t depth = ZR_MIN(c->depth, steps - t), first = t * of_word,
                elements = ZR_MIN(depth * of_word, p->k - first);
        pack_b(work, j, columns, first, elements, b, wide);
        for (int64_t r = 0; r < rows; r += c->rows) {
            block at = {.job = work,
                        .i = i + r,
                        .j = j,
                        .rows = ZR_MIN(c->rows, rows - r),
                        .columns = columns,
                        .depth = depth,
                        .fresh = t == 0 && !p->add,
                        .last = t + depth == steps,
                        .part = c->part ? part + r * c->columns : NULL};
            pack_a(&work->of, at.i, at.rows, first, elements, a, row);
            multiply_block(&at, a, b);
        }
    }
}

static void multiply_cells(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const cut *c = &work->cut;
    const zr_product *p = work->of.product;
    float *scratch = work->scratch + worker * worker_floats(c);
    for (int64_t cell = first; cell < last; cell++) {
        int64_t top = cell / c->across * c->cell_rows, left = cell % c->across * c->cell_columns;
        int64_t bottom = ZR_MIN(top + c->cell_rows, p->m),
                right = ZR_MIN(left + c->cell_columns, p->n);
        int64_t together = c->part ? c->part : c->cell_rows;
        for (int64_t j = left; j < right; j += c->columns)
            for (int64_t i = top; i < bottom; i += together)
                multiply_strip(work, i, j, ZR_MIN(together, bottom - i),
                               ZR_MIN(c->columns, right - j), scratch);
    }
}

static bool is_thin(const zr_product *product)
{
    return product->m <= THIN_ROWS && (!product->format || product->trans_b);
}

static size_t cpu_product_scratch(zr_queue *queue, const zr_product *product)
{
    if (product->m <= 0 || product->n <= 0)
        return 0;
    zr_product few = *product;
    few.m = ZR_MIN(product->m, FEW_ROWS);
    cut some = cut_largest(&few), most = cut_largest(product);
    few.m = ZR_MIN(product->m, THIN_ROWS);
    size_t least = ZR_CPU_TABLE(zr_cpu_thin_scratch)(queue, &few);
    if (is_thin(product))
        return least;
    return ZR_MAX(
        least, sizeof(float) *
                   (size_t)(ZR_MAX(worker_floats(&some), worker_floats(&most)) * queue->threads));
}

static zero_status check_product(zr_queue *queue, const zr_product *product, zero_error *error)
{
    size_t needed = cpu_product_scratch(queue, product);
    ZERO_TRY(zr_product_check_dense(product, error));
    if (queue->scratch_bytes < needed)
        return zr_fail(
            error, ZERO_ERR_INTERNAL,
            "product m %lld, n %lld, k %lld: needs %zu bytes of scratch, the queue has %zu",
            (long long)product->m, (long long)product->n, (long long)product->k, needed,
            queue->scratch_bytes);
    return ZERO_OK;
}

static void multiply(zr_queue *queue, const zr_operands *of)
{
    const zr_product *product = of->product;
    job work = {.of = *of, .cut = cut_choose(product, queue->threads), .scratch = queue->scratch};
    if (product->m <= 0 || product->n <= 0)
        return;
    if (is_thin(product))
        ZR_CPU_TABLE(zr_cpu_thin_product)(queue, of);
    else
        zr_cpu_for(queue, work.cut.down * work.cut.across, 1, multiply_cells, &work);
}

static zero_status cpu_product_run(zr_queue *queue, const zr_product *product, const void *a,
                                   const void *b, const void *operand, void *d, zero_error *error)
{
    ZERO_TRY(check_product(queue, product, error));
    multiply(queue, &(zr_operands){.product = product, .a = a, .b = b, .operand = operand, .d = d});
    return ZERO_OK;
}

void ZR_CPU_TABLE(zr_cpu_quantised_product)(zr_queue *queue, const zr_product *product,
                                            const void *a, const void *b, const float *scales,
                                            const void *operand, void *d)
{
    zero_error error = {0};
    zero_status status = check_product(queue, product, &error);
    if (status != ZERO_OK) {
        zr_queue_fail(queue, status, &error);
        return;
    }
    multiply(queue,
             &(zr_operands){
                 .product = product, .a = a, .b = b, .scales = scales, .operand = operand, .d = d});
}

const zr_cpu_products ZR_CPU_TABLE(zr_cpu_own_products) = {
    .scratch = cpu_product_scratch,
    .run = cpu_product_run,
};
