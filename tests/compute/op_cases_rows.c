// Losses, softmax, ids and sums of rows among the cases of operations.
#include "op_cases.h"

zr_op op_case_loss(operands *o)
{
    const zr_loss s = {.rows = ROWS, .vocab = WIDTH, .gradient = true};
    return zr_op_loss(&s, o->ids, &o->factor, o->c, o->a, o->b);
}

zr_op op_case_loss_without_gradient(operands *o)
{
    return zr_op_loss(&(zr_loss){.rows = ROWS, .vocab = WIDTH}, o->ids, NULL, NULL, o->a, o->b);
}

zr_op op_case_loss_parts(operands *o)
{
    const zr_loss s = {.rows = ROWS, .vocab = WIDTH};
    return zr_op_loss_parts(&s, o->ids, o->a, (zr_loss_part *)o->b);
}

zr_op op_case_loss_finish(operands *o)
{
    const zr_loss s = {.rows = ROWS, .vocab = WIDTH, .gradient = true, .slices = 2, .stride = ROWS};
    return zr_op_loss_finish(&s, (zr_loss_part *)o->b, o->ids, &o->factor, NULL, o->a, o->c);
}

zr_op op_case_loss_finish_without_gradient(operands *o)
{
    const zr_loss s = {.rows = ROWS, .vocab = WIDTH, .slices = 2, .stride = ROWS + 2};
    return zr_op_loss_finish(&s, (zr_loss_part *)o->b, o->ids, NULL, NULL, NULL, o->c);
}

zr_op op_case_softmax(operands *o)
{
    return zr_op_softmax(&(zr_matrix){.rows = ROWS, .width = WIDTH}, o->a);
}

zr_op op_case_local_ids(operands *o)
{
    return zr_op_local_ids(&(zr_id_range){ROWS, 10, 15}, o->ids + 48, (int32_t *)(void *)o->a);
}

zr_op op_case_sum_rows(operands *o)
{
    return zr_op_sum_rows(&(zr_row_sum){ROWS}, &o->step.targets, o->a, o->sums);
}
