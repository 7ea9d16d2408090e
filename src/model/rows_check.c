// Checks a program's tables: what blocks rely on, row by row.
#include "model/rows_model.h"

#include "base/errors.h"

typedef struct checking {
    const zero_half_table *half;
    const char *half_name;
    bool is_attention;
    const zero_tensor_row *tensors;
    int tensor_count;
    bool rms, outputs_first;
    const char *title;
    zero_error *error;
    int row; // that is checked
} checking;

static const struct {
    const char *name;
    int inputs;
    zero_wide reads[ZERO_ROW_INPUTS]; // NONE: any
    zero_wide width;                  // of the value; NONE: the row says
    bool may_be_kept, of_attention;
} kinds[ZERO_ROW_KINDS] = {
    [ZERO_ROW_NORM] = {"NORM", 0, {0}, ZERO_WIDE_STREAM},
    [ZERO_ROW_LINEAR] = {"LINEAR", 1, {0}, ZERO_WIDE_NONE, true},
    [ZERO_ROW_GELU_LINEAR] = {"GELU_LINEAR", 1, {0}, ZERO_WIDE_NONE, true},
    [ZERO_ROW_HEAD_NORM] = {"HEAD_NORM", 1, {0}, ZERO_WIDE_NONE, false, true},
    [ZERO_ROW_ROTATE] = {"ROTATE",
                         3,
                         {ZERO_WIDE_QUERIES, ZERO_WIDE_KEYS, ZERO_WIDE_KEYS},
                         ZERO_WIDE_PACKED,
                         false,
                         true},
    [ZERO_ROW_ROTATE_HEADS] =
        {"ROTATE_HEADS", 1, {ZERO_WIDE_PACKED}, ZERO_WIDE_PACKED, false, true},
    [ZERO_ROW_ATTENTION] = {"ATTENTION", 1, {ZERO_WIDE_PACKED}, ZERO_WIDE_QUERIES, true, true},
    [ZERO_ROW_GELU_ERF] = {"GELU_ERF", 1, {ZERO_WIDE_INNER}, ZERO_WIDE_INNER, true},
    [ZERO_ROW_SILU_GATE] =
        {"SILU_GATE", 2, {ZERO_WIDE_INNER, ZERO_WIDE_INNER}, ZERO_WIDE_INNER, true},
};

int zr_row_inputs(const zero_block_row *row) { return kinds[row->kind].inputs; }

static zero_wide width_of(const checking *c, int r)
{
    const zero_block_row *row = &c->half->rows[r];
    return kinds[row->kind].width ? kinds[row->kind].width : row->width;
}

static zero_status refuse_row(const checking *c, const char *what)
{
    return zr_fail(c->error, ZERO_ERR_USAGE, "rows of \"%s\": %s, row %d: %s", c->title,
                   c->half_name, c->row, what);
}

static bool is_linear(const zero_block_row *row)
{
    return row->kind == ZERO_ROW_LINEAR || row->kind == ZERO_ROW_GELU_LINEAR;
}

// Checks that a tensor has the size that its row needs.
static zero_status check_tensor(const checking *c, int number, zero_wide out, zero_wide in,
                                const char *which)
{
    bool exists = number >= 0 && number < c->tensor_count;
    const zero_tensor_row *tensor = exists ? &c->tensors[number] : NULL;
    if (exists && tensor->out == out && tensor->in == in)
        return ZERO_OK;
    return zr_fail(c->error, ZERO_ERR_USAGE,
                   "rows of \"%s\": %s, row %d: its %s is tensor %d, which %s", c->title,
                   c->half_name, c->row, which, number,
                   exists ? "has another size than the row" : "does not exist");
}

static zero_status check_tensors(const checking *c, const zero_block_row *row)
{
    if (is_linear(row)) {
        ZERO_TRY(check_tensor(c, row->weight, row->width, width_of(c, row->in[0]), "weight"));
        return row->bias == ZERO_NO_TENSOR
                   ? ZERO_OK
                   : check_tensor(c, row->bias, row->width, ZERO_WIDE_NONE, "bias");
    }
    if (row->kind == ZERO_ROW_HEAD_NORM)
        return check_tensor(c, row->weight, ZERO_WIDE_HEAD, ZERO_WIDE_NONE, "gain");
    if (row->kind != ZERO_ROW_NORM)
        return ZERO_OK;
    ZERO_TRY(check_tensor(c, row->weight, ZERO_WIDE_STREAM, ZERO_WIDE_NONE, "gain"));
    return c->rms ? ZERO_OK : check_tensor(c, row->bias, ZERO_WIDE_STREAM, ZERO_WIDE_NONE, "bias");
}

static zero_status check_inputs(const checking *c, const zero_block_row *row)
{
    if (row->kind == ZERO_ROW_HEAD_NORM && row->width != ZERO_WIDE_QUERIES &&
        row->width != ZERO_WIDE_KEYS)
        return refuse_row(c, "a HEAD_NORM is of queries or keys");
    for (int i = 0; i < zr_row_inputs(row); i++) {
        zero_wide wanted = row->kind == ZERO_ROW_HEAD_NORM ? row->width : kinds[row->kind].reads[i];
        if (row->in[i] < 0 || row->in[i] >= c->row)
            return refuse_row(c, "it reads a row that does not come before it");
        if (row->in[i] == 0 && row->kind != ZERO_ROW_LINEAR)
            return refuse_row(c, "only a LINEAR reads the norm, row 0");
        if (wanted && width_of(c, row->in[i]) != wanted)
            return refuse_row(c, "it reads a value of another width than its kind does");
    }
    return ZERO_OK;
}

// Every value is read once; only the norm may be read by several linears.
static zero_status check_readers(const checking *c)
{
    int readers = 0;
    for (int r = c->row + 1; r < c->half->count; r++)
        for (int i = 0; i < zr_row_inputs(&c->half->rows[r]); i++)
            readers += c->half->rows[r].in[i] == c->row;
    if (c->row == c->half->count - 1 || readers == 1 || (c->row == 0 && readers > 1))
        return ZERO_OK;
    return refuse_row(c, readers ? "several rows read it" : "no row reads it");
}

static zero_status check_row(const checking *c)
{
    const zero_block_row *row = &c->half->rows[c->row];
    if (row->kind < 0 || row->kind >= ZERO_ROW_KINDS)
        return refuse_row(c, "there is no such kind");
    bool last = c->row == c->half->count - 1, linear = is_linear(row),
         needed = linear || row->kind == ZERO_ROW_ATTENTION;
    const struct {
        bool broken;
        const char *rule;
    } rules[] = {
        {(row->kind == ZERO_ROW_NORM) != (c->row == 0), "row 0 is a NORM, and no other"},
        {kinds[row->kind].of_attention && !c->is_attention,
         "its kind belongs to the attention half"},
        {row->kind == ZERO_ROW_GELU_LINEAR && c->outputs_first,
         "a GELU_LINEAR has weights that lie as (in, out)"},
        {row->kept && (last || !kinds[row->kind].may_be_kept), "its value cannot be kept"},
        {!row->kept && !last && needed, "its value must be kept"},
        {last && !(linear && row->width == ZERO_WIDE_STREAM && row->in[0] > 0),
         "the last row is a linear of the stream's width, not of the norm"},
    };
    for (int i = 0; i < ZR_COUNT(rules); i++)
        if (rules[i].broken)
            return refuse_row(c, rules[i].rule);
    ZERO_TRY(check_inputs(c, row));
    return check_tensors(c, row);
}

static zero_status check_half(checking *c)
{
    int count = c->half->count, attentions = 0;
    if (count < 3 || count > ZERO_MOST_ROWS)
        return zr_fail(c->error, ZERO_ERR_USAGE,
                       "rows of \"%s\": %s has %d rows: 3 to %d are right", c->title, c->half_name,
                       count, ZERO_MOST_ROWS);
    for (c->row = 0; c->row < count; c->row++) {
        ZERO_TRY(check_row(c));
        attentions += c->half->rows[c->row].kind == ZERO_ROW_ATTENTION;
    }
    for (c->row = 0; c->row < count; c->row++)
        ZERO_TRY(check_readers(c));
    if (attentions == c->is_attention)
        return ZERO_OK;
    return zr_fail(c->error, ZERO_ERR_USAGE,
                   "rows of \"%s\": attention has %d rows of kind ATTENTION: one is right",
                   c->title, attentions);
}

// Returns how many rows use a tensor.
static int count_uses(const zero_block_table *block, int tensor, bool rms)
{
    int uses = 0;
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++)
        for (int r = 0; r < block->halves[half].count; r++) {
            const zero_block_row *row = &block->halves[half].rows[r];
            bool norm = row->kind == ZERO_ROW_NORM,
                 weight = norm || is_linear(row) || row->kind == ZERO_ROW_HEAD_NORM,
                 bias = is_linear(row) || (norm && !rms);
            uses += (weight && row->weight == tensor) + (bias && row->bias == tensor);
        }
    return uses;
}

zero_status zr_rows_check(const zero_block_table *block, const zero_tensor_row *tensors, int count,
                          bool rms, bool outputs_first, const char *title, zero_error *error)
{
    static const char *const names[] = {"attention", "mlp"};
    for (int half = 0; half < ZERO_BLOCK_HALVES; half++) {
        checking c = {.half = &block->halves[half],
                      .half_name = names[half],
                      .is_attention = half == ZERO_ATTENTION_HALF,
                      .tensors = tensors,
                      .tensor_count = count,
                      .rms = rms,
                      .outputs_first = outputs_first,
                      .title = title,
                      .error = error};
        ZERO_TRY(check_half(&c));
    }
    for (int t = 0; t < count; t++)
        if (count_uses(block, t, rms) != 1)
            return zr_fail(error, ZERO_ERR_USAGE,
                           "rows of \"%s\": tensor %d, \"%s\", is used by %d rows: one is right",
                           title, t, tensors[t].name, count_uses(block, t, rms));
    return ZERO_OK;
}
