#include "plan/muon.h"

#include "model/unit.h"
#include "plan/plan_parts.h"

#include <stdlib.h>

enum { ALIGN = 64 };

zr_orthogonal zr_orthogonal_standard(int64_t rows, int64_t cols)
{
    return (zr_orthogonal){.rows = rows,
                           .cols = cols,
                           .method = ZR_ORTHOGONAL_STANDARD,
                           .steps = 5,
                           .a = 3.4445,
                           .b = -4.775,
                           .c = 2.0315,
                           .eps = 1e-7};
}

bool zr_orthogonal_on_gram(const zr_orthogonal *of)
{
    return of->method == ZR_ORTHOGONAL_GRAM && of->rows != of->cols && of->steps > 0;
}

int64_t zr_orthogonal_sums_bytes(const zr_orthogonal *of)
{
    return ZR_ROUND_UP(of->rows * of->cols * (int64_t)sizeof(float), (int64_t)ALIGN);
}

int64_t zr_orthogonal_square_bytes(const zr_orthogonal *of)
{
    int64_t n = ZR_MIN(of->rows, of->cols);
    return ZR_ROUND_UP(n * n * (int64_t)sizeof(uint16_t), (int64_t)ALIGN);
}

int64_t zr_orthogonal_workspace(const zr_orthogonal *of)
{
    int squares = zr_orthogonal_on_gram(of) ? 3 : 1;
    return zr_orthogonal_sums_bytes(of) + zr_orthogonal_square_bytes(of) * squares;
}

bool zr_orthogonal_goes_on(const zr_orthogonal *of, int step)
{
    return step + 1 < of->steps && step + 1 != ZR_ORTHOGONAL_RESTART;
}

double zr_orthogonal_flops(const zr_orthogonal *of)
{
    bool on_gram = zr_orthogonal_on_gram(of);
    double n = (double)ZR_MIN(of->rows, of->cols), m = (double)ZR_MAX(of->rows, of->cols);
    int wide = on_gram ? 1 : 2 * of->steps, squares = of->steps;
    for (int step = 0; on_gram && step < of->steps; step++) {
        wide += zr_orthogonal_begins(step) + (step == ZR_ORTHOGONAL_RESTART);
        squares += !zr_orthogonal_begins(step) + 2 * zr_orthogonal_goes_on(of, step);
    }
    return 2.0 * n * n * (m * wide + n * squares);
}

zr_orthogonal zr_plan_orthogonal(const zr_plan *plan, int64_t rows, int64_t cols)
{
    zr_orthogonal of = zr_orthogonal_standard(rows, cols);
    of.method = plan->settings.gram ? ZR_ORTHOGONAL_GRAM : ZR_ORTHOGONAL_STANDARD;
    return of;
}

bool zr_is_muon_matrix(const zero_model *model, int unit, zero_class kind,
                       const zero_tensor_desc *tensor)
{
    return kind == ZERO_TRAINABLE && unit > 0 && unit < model->unit_count - 1 &&
           zr_tensor_whole(tensor).dims == 2;
}

static zero_status refuse_streamed(const zr_plan *plan, const zr_plan_tensor *tensor,
                                   zero_error *error)
{
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "planning %s with Muon: the matrix \"%s\" comes in tiles (libzero.tiling), and "
                   "its direction is computed of the whole matrix; expected no tiles, or another "
                   "optimizer",
                   plan->model->name, zr_tensor_name(tensor->desc));
}

static bool is_listed(const zr_plan *plan, int number)
{
    for (int i = 0; i < plan->matrix_count; i++)
        if (plan->matrices[i].number == number)
            return true;
    return false;
}

static zero_status list_matrices(zr_plan *plan, zero_error *error)
{
    plan->matrices = zr_alloc(sizeof *plan->matrices * (size_t)plan->tensor_count + 1, error);
    if (!plan->matrices)
        return ZERO_ERR_MEMORY;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        for (int t = 0; t < flat_param->tensor_count; t++) {
            const zr_plan_tensor *tensor = &flat_param->tensors[t];
            const zero_tensor_desc whole = zr_tensor_whole(tensor->desc);
            if (!tensor->orthogonal || is_listed(plan, tensor->number))
                continue;
            if (flat_param->streamed)
                return refuse_streamed(plan, tensor, error);
            plan->matrices[plan->matrix_count++] = (zr_muon_matrix){
                .number = tensor->number, .rows = whole.shape[0], .cols = whole.shape[1]};
        }
    }
    return ZERO_OK;
}

// The largest first; of two that are as large, the one with the lower number.
static int compare_sizes(const void *a_, const void *b_)
{
    const zr_muon_matrix *a = a_, *b = b_;
    const zr_orthogonal of_a = zr_orthogonal_standard(a->rows, a->cols),
                        of_b = zr_orthogonal_standard(b->rows, b->cols);
    double x = zr_orthogonal_flops(&of_a), y = zr_orthogonal_flops(&of_b);
    return x > y ? -1 : x < y ? 1 : a->number - b->number;
}

static int compare_rounds(const void *a_, const void *b_)
{
    const zr_muon_matrix *a = a_, *b = b_;
    return a->round != b->round ? a->round - b->round : a->owner - b->owner;
}

// Gives each matrix, the largest first, to the rank with the fewest FLOPs so far.
static zero_status choose_owners(zr_plan *plan, zero_error *error)
{
    int ranks = plan->ranks * plan->tensor_ranks;
    struct load {
        double flops;
        int matrices;
    } *loads = zr_alloc(sizeof *loads * (size_t)ranks, error);
    if (!loads)
        return ZERO_ERR_MEMORY;
    qsort(plan->matrices, (size_t)plan->matrix_count, sizeof *plan->matrices, compare_sizes);
    for (int i = 0; i < plan->matrix_count; i++) {
        zr_muon_matrix *matrix = &plan->matrices[i];
        const zr_orthogonal of = zr_plan_orthogonal(plan, matrix->rows, matrix->cols);
        for (int r = 1; r < ranks; r++)
            if (loads[r].flops < loads[matrix->owner].flops)
                matrix->owner = r;
        loads[matrix->owner].flops += zr_orthogonal_flops(&of);
        matrix->round = loads[matrix->owner].matrices++;
    }
    zr_free(loads);
    qsort(plan->matrices, (size_t)plan->matrix_count, sizeof *plan->matrices, compare_rounds);
    return ZERO_OK;
}

// Returns the scratch of the iteration's products.
static int64_t product_scratch(const zr_orthogonal *of, const zr_machine *machine)
{
    bool tall = of->rows > of->cols;
    int64_t n = ZR_MIN(of->rows, of->cols), m = ZR_MAX(of->rows, of->cols), most = 0;
    const zero_product_shape products[] = {
        {.m = n, .n = n, .k = m, .trans_a = tall, .trans_b = !tall},
        {.m = n, .n = n, .k = n},
        {.m = of->rows, .n = of->cols, .k = n, .trans_b = tall}};
    zero_dtype dtype = of->method == ZR_ORTHOGONAL_GRAM ? ZERO_F16 : ZERO_BF16;
    for (int i = 0; i < ZR_COUNT(products) && machine->product_scratch; i++)
        most = ZR_MAX(most, (int64_t)machine->product_scratch(machine->user, dtype, &products[i]));
    return most;
}

zero_status zr_plan_muon(zr_plan *plan, const zr_machine *machine, zero_error *error)
{
    if (!plan->settings.orthogonal)
        return ZERO_OK;
    ZERO_TRY(list_matrices(plan, error));
    ZERO_TRY(choose_owners(plan, error));
    for (int i = 0; i < plan->matrix_count; i++) {
        const zr_muon_matrix *matrix = &plan->matrices[i];
        const zr_orthogonal of = zr_plan_orthogonal(plan, matrix->rows, matrix->cols);
        int64_t bytes =
            ZR_ROUND_UP(matrix->rows * matrix->cols * (int64_t)sizeof(uint16_t), (int64_t)ALIGN);
        plan->matrix_bytes = ZR_MAX(plan->matrix_bytes, bytes);
        plan->orthogonal_bytes = ZR_MAX(plan->orthogonal_bytes, zr_orthogonal_workspace(&of));
        plan->orthogonal_scratch = ZR_MAX(plan->orthogonal_scratch, product_scratch(&of, machine));
    }
    return ZERO_OK;
}
