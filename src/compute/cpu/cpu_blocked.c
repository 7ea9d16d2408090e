// Products without oneDNN (or without OpenMP, where oneDNN's threads could not be told how many they are): blocks of D, each
// a task that packs what it needs of A and B into its worker's scratch and multiplies register tiles (Goto, 2008).
//
// Invariant: every element's sum runs over k in one order, whatever the number of threads.
#include "compute/cpu/cpu.h"
#include "compute/cpu/cpu_tile.h"

#define ROWS 96     // of a block of D; a multiple of MR
#define COLUMNS 256 // a multiple of every NR
#define DEPTH 256

typedef struct job {
    const zr_product *product;
    const float *a, *b, *bias;
    float *d, *scratch;
    int64_t across; // blocks in a row of blocks
} job;

// `depth` rows of `count` floats to panels of `panel` columns: to[(j / panel) * panel * depth + t * panel + j % panel]; the
// last panel is filled up with zeros.
static void pack_slices(const float *from, int64_t from_step, int64_t depth, int64_t count, int64_t panel, float *to)
{
    for (int64_t start = 0; start < count; start += panel, to += panel * depth) {
        int64_t filled = ZR_MIN(panel, count - start);
        for (int64_t t = 0; t < depth; t++) {
            memcpy(to + t * panel, from + t * from_step + start, sizeof(float) * (size_t)filled);
            memset(to + t * panel + filled, 0, sizeof(float) * (size_t)(panel - filled));
        }
    }
}

static void pack_a(const job *work, int64_t i0, int64_t rows, int64_t k0, int64_t depth, float *to)
{
    const zr_product *p = work->product;
    if (p->trans_a)
        pack_slices(work->a + k0 * p->m + i0, p->m, depth, rows, MR, to);
    else
        pack_columns(work->a + i0 * p->k + k0, p->k, rows, depth, MR, 1, to);
}

static void pack_b(const job *work, int64_t j0, int64_t columns, int64_t k0, int64_t depth, float *to)
{
    const zr_product *p = work->product;
    if (p->trans_b)
        pack_columns(work->b + j0 * p->k + k0, p->k, columns, depth, NR, 1, to);
    else
        pack_slices(work->b + k0 * p->n + j0, p->n, depth, columns, NR, to);
}

// What the tiles are added to.
static void begin_block(const job *work, float *d, int64_t rows, int64_t columns, const float *bias)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float *at = d + i * work->product->n + j;
            *at = (work->product->add ? *at : 0) + (bias ? bias[j] : 0);
        }
}

// A tile that reaches over the edge of D goes through a copy.
static void edge_tile(const float *a, const float *b, int64_t depth, float *d, int64_t step, int64_t rows,
                      int64_t columns)
{
    float tile[MR * NR] = {0};
    for (int64_t i = 0; i < rows; i++)
        memcpy(tile + i * NR, d + i * step, sizeof(float) * (size_t)columns);
    tile_product(a, 1, MR, b, NR, depth, tile, NR, 1);
    for (int64_t i = 0; i < rows; i++)
        memcpy(d + i * step, tile + i * NR, sizeof(float) * (size_t)columns);
}

static void multiply_block(const float *a, const float *b, int64_t depth, float *d, int64_t step, int64_t rows,
                           int64_t columns)
{
    for (int64_t j = 0; j < columns; j += NR)
        for (int64_t i = 0; i < rows; i += MR) {
            const float *a_panel = a + i * depth, *b_panel = b + j * depth;
            if (i + MR <= rows && j + NR <= columns)
                tile_product(a_panel, 1, MR, b_panel, NR, depth, d + i * step + j, step, 1);
            else
                edge_tile(a_panel, b_panel, depth, d + i * step + j, step, ZR_MIN(MR, rows - i),
                          ZR_MIN(NR, columns - j));
        }
}

static void blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const job *work = job_;
    const zr_product *p = work->product;
    float *a = work->scratch + (int64_t)worker * (ROWS + COLUMNS) * DEPTH, *b = a + ROWS * DEPTH;
    for (int64_t block = first; block < last; block++) {
        int64_t i0 = block / work->across * ROWS, j0 = block % work->across * COLUMNS;
        int64_t rows = ZR_MIN(ROWS, p->m - i0), columns = ZR_MIN(COLUMNS, p->n - j0);
        float *d = work->d + i0 * p->n + j0;
        begin_block(work, d, rows, columns, work->bias ? work->bias + j0 : NULL);
        for (int64_t k0 = 0; k0 < p->k; k0 += DEPTH) {
            int64_t depth = ZR_MIN(DEPTH, p->k - k0);
            pack_a(work, i0, rows, k0, depth, a);
            pack_b(work, j0, columns, k0, depth, b);
            multiply_block(a, b, depth, d, p->n, rows, columns);
        }
    }
}

static size_t scratch(zr_queue *queue, const zr_product *product)
{
    return sizeof(float) * (ROWS + COLUMNS) * DEPTH * (size_t)queue->threads;
}

static zero_status run(zr_queue *queue, const zr_product *product, const void *a, const void *b, const float *bias,
                       void *d, zero_error *error)
{
    size_t needed = scratch(queue, product);
    if (product->dtype != ZERO_F32)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "matrix product: backend \"cpu\" multiplies fp32 only");
    if (queue->scratch_bytes < needed)
        return zr_fail(
            error, ZERO_ERR_INTERNAL, "product m %lld, n %lld, k %lld: needs %zu bytes of scratch, the queue has %zu",
            (long long)product->m, (long long)product->n, (long long)product->k, needed, queue->scratch_bytes);
    int64_t down = (product->m + ROWS - 1) / ROWS, across = (product->n + COLUMNS - 1) / COLUMNS;
    job work = {.product = product,
                .a = a,
                .b = b,
                .bias = product->epilogue == ZR_EPILOGUE_BIAS ? bias : NULL,
                .d = d,
                .scratch = queue->scratch,
                .across = across};
    zr_cpu_for(queue, down * across, 1, blocks, &work);
    return ZERO_OK;
}

const zr_product_ops ZR_CPU_TABLE(zr_cpu_blocked_ops) = {
    .scratch = scratch,
    .run = run,
};
