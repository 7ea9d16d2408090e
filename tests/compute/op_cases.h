// Cases of every kind of operation, with what is known of each: its operands, and what a recording
// notes of it. The table is indexed by the kind, so that a kind without a case fails by name.
#ifndef TESTS_COMPUTE_OP_CASES_H
#define TESTS_COMPUTE_OP_CASES_H

#include "base/recorder.h"
#include "compute_check.h"

enum {
    ROWS = 8,
    WIDTH = 64,
    HEADS = 2,
    SEQ = 4,
    VOCAB = 5 * (ROWS - 1) + 1, // the last id of the first ROWS is the last token
    ELEMS = ROWS * WIDTH,
    BLOCK_ELEMS = ELEMS + 7, // two blocks, and a third that ends within a byte of codes
    WORD = 4,
    HALF = 2,
    BYTES_OF_8 = BLOCK_ELEMS + 1 + 3 * WORD, // codes of that many bits, and scales
    BYTES_OF_4 = BLOCK_ELEMS / 2 + 1 + 3 * WORD,
    FLOATS = 8 * ELEMS,
    SCRATCH_BYTES = 1 << 20,
    MOST_VARIANTS = 4
};

typedef struct operands { // every case reads and writes these; 64-byte aligned
    _Alignas(64) float a[FLOATS], b[FLOATS], c[FLOATS], d[FLOATS], e[FLOATS];
    _Alignas(64) double sums[8];
    _Alignas(64) zr_exact exact[2];
    _Alignas(64) int32_t ids[64], starts[64]; // starts: of attention, all 0
    zr_step_values step;
    zr_update_values update;
    zr_attention_run run;
    float factor;
    _Alignas(64) char scratch[SCRATCH_BYTES]; // not compared
} operands;

// Returns operands of fixed values; free them with free.
operands *operands_new(void);

typedef struct op_case {
    const char *name;
    // Its operands in order: r: it is read, w: it is written, a: its bytes are not counted.
    const char *operands;
    zr_op (*make)(operands *o);
    zr_activity what;
    int64_t bytes, flops;
} op_case;

// op_cases_product.c
zr_op op_case_product(operands *o);
zr_op op_case_product_bf16_added(operands *o);
zr_op op_case_product_sloped(operands *o);
zr_op op_case_quantised_product(operands *o);
zr_op op_case_quantised_product_int8(operands *o);
zr_op op_case_decode_scales(operands *o);

// op_cases_magnitude.c
zr_op op_case_weight_squares(operands *o);
zr_op op_case_column_squares(operands *o);
zr_op op_case_squares_of_codes(operands *o);
zr_op op_case_adapted_squares(operands *o);
zr_op op_case_magnitude_factors(operands *o);
zr_op op_case_scale_columns(operands *o);
zr_op op_case_scale_columns_of_sum(operands *o);
zr_op op_case_column_products(operands *o);

// op_cases_tree.c
zr_op op_case_tree_sum(operands *o);
zr_op op_case_tree_sum_added(operands *o);
zr_op op_case_tree_sum_of_codes(operands *o);

// op_cases_rows.c
zr_op op_case_loss(operands *o);
zr_op op_case_loss_without_gradient(operands *o);
zr_op op_case_loss_parts(operands *o);
zr_op op_case_loss_finish(operands *o);
zr_op op_case_loss_finish_without_gradient(operands *o);
zr_op op_case_softmax(operands *o);
zr_op op_case_local_ids(operands *o);
zr_op op_case_sum_rows(operands *o);

// op_cases_optimizer.c
zr_op op_case_update(operands *o);
zr_op op_case_update_lion(operands *o);
zr_op op_case_update_halves(operands *o);
zr_op op_case_update_blocks(operands *o);
zr_op op_case_square_sums(operands *o);
zr_op op_case_square_sums_exact(operands *o);
zr_op op_case_square_sums_exact_infinite(operands *o);
zr_op op_case_lamb_direction(operands *o);
zr_op op_case_subtract_scaled(operands *o);
zr_op op_case_subtract_scaled_with_copy(operands *o);
zr_op op_case_weighted_sum(operands *o);
zr_op op_case_momentum_direction(operands *o);
zr_op op_case_orthogonal_update(operands *o);
zr_op op_case_average(operands *o);
// op_cases_factored.c
zr_op op_case_factor_sums(operands *o);
zr_op op_case_factor_sums_of_vector(operands *o);
zr_op op_case_factored_squares(operands *o);
zr_op op_case_factored_update(operands *o);

// op_cases_graph.c: half as many nodes as rows.
enum { EDGES = ROWS + 2 };
enum { SUM_BYTES = 8 * (ROWS + 1) + 8 * EDGES + 3 * ELEMS };     // bf16
enum { COUNTED_BYTES = 8 * (ROWS + 1) + 4 * EDGES + 6 * ELEMS }; // fp32, without weights
#define NEIGHBOURS "r starts, r neighbours, r weights, r x, "
zr_op op_case_neighbour_sum(operands *o);
zr_op op_case_sum_without_weights(operands *o);

// op_cases_blocks.c
zr_op op_case_blocks_encode(operands *o);
zr_op op_case_blocks_encode_carried(operands *o);
zr_op op_case_blocks_decode(operands *o);
zr_op op_case_blocks_decode_halves(operands *o);
zr_op op_case_blocks_add(operands *o);
zr_op op_case_blocks_round(operands *o);

extern const op_case op_cases[ZR_OP_KINDS][MOST_VARIANTS];
// Returns the case that follows; NULL: returns the first. Returns NULL after the last.
const op_case *op_case_next(const op_case *before);
void check_every_kind_has_a_case(void);

#endif
