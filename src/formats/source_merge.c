#include "formats/source_merge.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "model/lm_table.h"
#include "model/lora_peft.h"

#include <math.h>
#include <string.h>

#define BLOCK ((int64_t)1 << 16) // elements merged at a time
enum { WIDEST = 8 };             // bytes of an element

// A weight with its adapter. The adapter's parts are numbers of tensors in its file.
typedef struct merged {
    int a, b;           // -1: the tensor is read as it is
    int magnitude;      // -1: the adapter has none
    int instead;        // the adapter's tensor that takes its place; -1: none
    bool left_out;      // it is the head of tokens of a model that gets one of labels
    const char *stored; // dtype in the model's file
    zero_dtype as;      // in which it is read
} merged;

struct zr_merge {
    zr_source adapter;
    const zr_architecture *of;
    zr_lora lora;
    bool outputs_first;
    int64_t width, labels; // labels: 0 if the model continues texts
    merged *tensors;       // (tensor_count) of the model's weights
    // The product that is added to tensor `current` (-1: none yet), as left (rows of the weight,
    // rank), which has the factor s in it, and right (rank, columns).
    int current;
    float *left, *right;
    float *factors;      // (outputs) of the sums; NULL without magnitudes
    char *in;            // BLOCK elements of the model's file
    float *wide, *delta; // BLOCK
};

void zr_merge_free(struct zr_merge *merge)
{
    if (!merge)
        return;
    zr_source_close(&merge->adapter);
    zr_free(merge->tensors);
    zr_free(merge->left);
    zr_free(merge->right);
    zr_free(merge->factors);
    zr_free(merge->in);
    zr_free(merge->wide);
    zr_free(merge->delta);
    zr_free(merge);
}

static int64_t width_of(const char *dtype) { return zr_st_dtype_find(dtype)->bits / 8; }

// ---- which tensors belong together

// Returns a name without the beginning that files of the architecture may have or not.
static const char *skip_prefix(const zr_architecture *of, const char *name)
{
    size_t length = of->file_prefix ? strlen(of->file_prefix) : 0;
    return length && !strncmp(name, of->file_prefix, length) ? name + length : name;
}

// Returns whether this is the name of a half, in an adapter's file, for the weight `name`.
static bool is_half(const struct zr_merge *m, const char *half, const char *name,
                    const char *ending)
{
    size_t prefix = strlen(ZR_ADAPTER_PREFIX);
    if (strncmp(half, ZR_ADAPTER_PREFIX, prefix) != 0)
        return false;
    half = skip_prefix(m->of, half + prefix);
    name = skip_prefix(m->of, name);
    size_t layer = strlen(name), of_weight = strlen(".weight");
    if (layer <= of_weight || strcmp(name + layer - of_weight, ".weight") != 0)
        return false;
    layer -= of_weight;
    return !strncmp(half, name, layer) && !strcmp(half + layer, ending);
}

static int find_half(const struct zr_merge *m, const char *name, const char *ending)
{
    const zr_source_vector *halves = &m->adapter.vectors[0];
    for (int t = 0; t < halves->tensor_count; t++)
        if (is_half(m, halves->tensors[t].name, name, ending))
            return t;
    return -1;
}

static zero_status check_half(const struct zr_merge *m, int half, int64_t rows, int64_t columns,
                              const zr_source_tensor *whole, zero_error *error)
{
    const zr_source_tensor *found = &m->adapter.vectors[0].tensors[half];
    return found->dims == 2 && found->shape[0] == rows && found->shape[1] == columns &&
                   zr_source_is_real(found->dtype)
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA,
                         "\"%s\": the tensor \"%s\" does not fit \"%s\" of the model, of %lld x "
                         "%lld: it would be %lld x %lld",
                         m->adapter.path, found->name, whole->name, (long long)whole->shape[0],
                         (long long)whole->shape[1], (long long)rows, (long long)columns);
}

static zero_status find_magnitude(const struct zr_merge *m, const zr_source_tensor *whole,
                                  merged *out, zero_error *error)
{
    int64_t outputs = whole->shape[!m->outputs_first];
    if (!m->lora.magnitudes)
        return ZERO_OK;
    out->magnitude = find_half(m, whole->name, ZR_LORA_MAGNITUDE);
    const zr_source_tensor *found =
        out->magnitude < 0 ? NULL : &m->adapter.vectors[0].tensors[out->magnitude];
    if (found && found->dims == 1 && found->shape[0] == outputs && zr_source_is_real(found->dtype))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\": the lora_magnitude_vector of \"%s\" is %s: it would be %lld numbers",
                   m->adapter.path, whole->name, found ? "something else" : "missing",
                   (long long)outputs);
}

static zero_status find_halves(struct zr_merge *m, const zr_source_tensor *whole, merged *out,
                               zero_error *error)
{
    *out = (merged){.a = find_half(m, whole->name, ZR_LORA_A),
                    .b = find_half(m, whole->name, ZR_LORA_B),
                    .magnitude = -1,
                    .instead = -1,
                    .stored = whole->dtype,
                    .as = ZERO_F32};
    if (out->a < 0 && out->b < 0)
        return ZERO_OK;
    if (out->a < 0 || out->b < 0)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has only one of lora_A and lora_B of \"%s\"",
                       m->adapter.path, whole->name);
    if (whole->dims != 2 || !zr_source_is_real(whole->dtype))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" adapts \"%s\", which is no matrix of real numbers", m->adapter.path,
                       whole->name);
    int64_t outputs = whole->shape[!m->outputs_first], inputs = whole->shape[m->outputs_first];
    ZERO_TRY(check_half(m, out->a, m->lora.rank, inputs, whole, error));
    ZERO_TRY(check_half(m, out->b, outputs, m->lora.rank, whole, error));
    return find_magnitude(m, whole, out, error);
}

static zero_status find_score(const struct zr_merge *m, int *out, zero_error *error)
{
    const zr_source_vector *adapter = &m->adapter.vectors[0];
    *out = 0;
    while (*out < adapter->tensor_count &&
           strcmp(adapter->tensors[*out].name, ZR_ADAPTER_SCORE) != 0)
        ++*out;
    const zr_source_tensor *found = *out < adapter->tensor_count ? &adapter->tensors[*out] : NULL;
    if (found && found->dims == 2 && found->shape[0] == m->labels && found->shape[1] == m->width &&
        zr_source_is_real(found->dtype))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\": the tensor \"" ZR_ADAPTER_SCORE
                   "\" is %s: the head of %lld labels would be %lld x %lld real numbers",
                   m->adapter.path, found ? "something else" : "missing", (long long)m->labels,
                   (long long)m->labels, (long long)m->width);
}

// Returns the place of the model's head of labels, which is made if there is none; -1: no memory.
static int make_place(struct zr_merge *m, zr_source_vector *whole, zero_error *error)
{
    int t = 0;
    while (t < whole->tensor_count && strcmp(whole->tensors[t].name, ZR_SCORE_WEIGHT) != 0)
        t++;
    if (t < whole->tensor_count)
        return t;
    zr_source_tensor *grown =
        zr_realloc(whole->tensors, ((size_t)t + 1) * sizeof *whole->tensors, error);
    if (!grown)
        return -1;
    whole->tensors = grown;
    grown[whole->tensor_count++] = (zr_source_tensor){.name = NULL};
    m->tensors[t] = (merged){.a = -1, .b = -1, .magnitude = -1};
    return t;
}

// Lets the adapter's head of labels take the place of the model's, and leaves out the head of
// tokens.
static zero_status place_score(struct zr_merge *m, zr_source_vector *whole, zero_error *error)
{
    int score;
    ZERO_TRY(find_score(m, &score, error));
    for (int t = 0; t < whole->tensor_count; t++) {
        const char *name = skip_prefix(m->of, whole->tensors[t].name);
        m->tensors[t].left_out =
            !strcmp(name, "lm_head.weight") || !strcmp(name, m->of->tensors.head);
    }
    int place = make_place(m, whole, error);
    if (place < 0)
        return ZERO_ERR_MEMORY;
    const zr_source_tensor *found = &m->adapter.vectors[0].tensors[score];
    m->tensors[place].instead = score;
    zr_free(whole->tensors[place].name);
    return zr_source_set(&whole->tensors[place], ZR_SCORE_WEIGHT, found->dtype, found->dims,
                         found->shape, error);
}

static zero_status check_all_used(const struct zr_merge *m, int count, zero_error *error)
{
    const zr_source_vector *halves = &m->adapter.vectors[0];
    for (int h = 0; h < halves->tensor_count; h++) {
        bool used = false;
        for (int t = 0; t < count && !used; t++)
            used = m->tensors[t].a == h || m->tensors[t].b == h || m->tensors[t].magnitude == h ||
                   m->tensors[t].instead == h;
        if (!used)
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\": the tensor \"%s\" belongs to no weight of the model",
                           m->adapter.path, halves->tensors[h].name);
    }
    return halves->tensor_count
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "\"%s\" has no tensor: it adapts nothing",
                         m->adapter.path);
}

// Chooses the type in which a tensor is read from now on.
static void choose_read_dtype(merged *of, bool widens, zr_source_tensor *tensor)
{
    if (of->a < 0)
        return;
    for (zero_dtype as = ZERO_F32; as <= ZERO_F16 && !widens; as++)
        if (!strcmp(of->stored, zr_st_dtype_of(as)->name))
            of->as = as;
    int64_t elements = tensor->bytes / width_of(tensor->dtype);
    tensor->dtype = zr_st_dtype_of(of->as)->name;
    tensor->bytes = elements * width_of(tensor->dtype);
}

static zero_status prepare_merge(struct zr_merge *m, zr_source *source, const char *weights,
                                 bool widens, zero_error *error)
{
    zr_source_vector *whole = &source->vectors[0];
    ZERO_TRY(zr_source_open(weights, &m->adapter, error));
    // One more than the model has: a head of labels.
    m->tensors = zr_alloc(((size_t)whole->tensor_count + 1) * sizeof *m->tensors, error);
    m->in = zr_alloc((size_t)(BLOCK * WIDEST), error);
    m->wide = zr_alloc((size_t)BLOCK * sizeof *m->wide, error);
    m->delta = zr_alloc((size_t)BLOCK * sizeof *m->delta, error);
    if (!m->tensors || !m->in || !m->wide || !m->delta)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < whole->tensor_count; t++)
        ZERO_TRY(find_halves(m, &whole->tensors[t], &m->tensors[t], error));
    if (m->labels)
        ZERO_TRY(place_score(m, whole, error));
    ZERO_TRY(check_all_used(m, whole->tensor_count, error));
    for (int t = 0; t < whole->tensor_count; t++)
        choose_read_dtype(&m->tensors[t], widens, &whole->tensors[t]);
    return ZERO_OK;
}

zero_status zr_source_merge(zr_source *source, const char *weights, const zr_lm_config *config,
                            bool widens, zero_error *error)
{
    struct zr_merge *m = zr_alloc(sizeof *m, error);
    if (!m)
        return ZERO_ERR_MEMORY;
    m->current = -1;
    m->of = zr_architecture_of(config);
    m->lora = config->lora;
    m->outputs_first = zr_lm_shape_of(config).outputs_first;
    m->width = zr_lm_shape_of(config).width;
    m->labels = config->labels.count;
    zero_status status = prepare_merge(m, source, weights, widens, error);
    if (status == ZERO_OK)
        source->merge = m;
    else
        zr_merge_free(m);
    return status;
}

bool zr_merge_leaves_out(const zr_source *source, int tensor)
{
    return source->merge && source->merge->tensors[tensor].left_out;
}

// ---- reading

static void transpose(const float *from, int64_t rows, int64_t columns, float *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            to[j * rows + i] = from[i * columns + j];
}

// Reads a half, or a magnitude; *out (zr_free) has it the other way round if it is `turned`.
static zero_status read_half(struct zr_merge *m, int half, bool turned, float **out,
                             zero_error *error)
{
    const zr_source_tensor *tensor = &m->adapter.vectors[0].tensors[half];
    int64_t rows = tensor->shape[0], columns = tensor->dims == 2 ? tensor->shape[1] : 1;
    size_t bytes = (size_t)(rows * columns) * sizeof(float);
    char *raw = zr_alloc((size_t)tensor->bytes + 1, error);
    float *values = zr_alloc(bytes + 1, error), *other = zr_alloc(turned ? bytes + 1 : 1, error);
    zero_status status = raw && values && other
                             ? zr_source_read(&m->adapter, 0, half, 0, tensor->bytes, raw, error)
                             : ZERO_ERR_MEMORY;
    if (status == ZERO_OK) {
        zr_source_widen(tensor->dtype, raw, rows * columns, values);
        if (turned)
            transpose(values, rows, columns, other);
        *out = turned ? other : values;
    }
    zr_free(raw);
    zr_free(status != ZERO_OK || turned ? values : other);
    if (status != ZERO_OK)
        zr_free(other);
    return status;
}

// Reads the two matrices whose product is added to a tensor.
static zero_status read_halves(struct zr_merge *m, int tensor, const zr_source_tensor *whole,
                               zero_error *error)
{
    const merged *of = &m->tensors[tensor];
    float s = zr_lora_scale(&m->lora);
    zr_free(m->left);
    zr_free(m->right);
    zr_free(m->factors);
    m->left = m->right = m->factors = NULL;
    m->current = -1;
    ZERO_TRY(read_half(m, m->outputs_first ? of->b : of->a, !m->outputs_first, &m->left, error));
    ZERO_TRY(read_half(m, m->outputs_first ? of->a : of->b, !m->outputs_first, &m->right, error));
    for (int64_t i = 0; i < whole->shape[0] * m->lora.rank; i++)
        m->left[i] *= s;
    return ZERO_OK;
}

// Adds elements [first, first + count) of the product to those of the weight. count: at most BLOCK.
static void add_product(struct zr_merge *m, int64_t columns, int64_t first, int64_t count)
{
    memset(m->delta, 0, (size_t)count * sizeof *m->delta);
    for (int64_t done = 0, n; done < count; done += n) {
        int64_t row = (first + done) / columns, column = (first + done) % columns;
        n = ZR_MIN(count - done, columns - column);
        for (int64_t k = 0; k < m->lora.rank; k++) {
            float factor = m->left[row * m->lora.rank + k];
            const float *of = m->right + k * columns + column;
            for (int64_t j = 0; j < n; j++)
                m->delta[done + j] += factor * of[j];
        }
    }
    for (int64_t i = 0; i < count; i++)
        m->wide[i] += m->delta[i];
}

// Reads elements [first, first + count) of the sum of a weight and its product into m->wide, as
// they are before they are scaled. count: at most BLOCK.
static zero_status read_sum(zr_source *source, int tensor, int64_t first, int64_t count,
                            zero_error *error)
{
    struct zr_merge *m = source->merge;
    const char *stored = m->tensors[tensor].stored;
    int64_t from = width_of(stored);
    ZERO_TRY(source->ops->read(source, 0, tensor, first * from, count * from, m->in, error));
    zr_source_widen(stored, m->in, count, m->wide);
    add_product(m, source->vectors[0].tensors[tensor].shape[1], first, count);
    return ZERO_OK;
}

static int64_t output_of(const struct zr_merge *m, const zr_source_tensor *whole, int64_t element)
{
    return m->outputs_first ? element / whole->shape[1] : element % whole->shape[1];
}

static zero_status add_squares(zr_source *source, int tensor, double *sums, zero_error *error)
{
    struct zr_merge *m = source->merge;
    const zr_source_tensor *whole = &source->vectors[0].tensors[tensor];
    for (int64_t at = 0, end = whole->shape[0] * whole->shape[1], n; at < end; at += n) {
        n = ZR_MIN(end - at, BLOCK);
        ZERO_TRY(read_sum(source, tensor, at, n, error));
        for (int64_t i = 0; i < n; i++)
            sums[output_of(m, whole, at + i)] += (double)m->wide[i] * (double)m->wide[i];
    }
    return ZERO_OK;
}

// Reads the magnitudes of a tensor, and divides them by the norms of the sum.
static zero_status find_factors(zr_source *source, int tensor, zero_error *error)
{
    struct zr_merge *m = source->merge;
    const zr_source_tensor *whole = &source->vectors[0].tensors[tensor];
    int64_t outputs = whole->shape[!m->outputs_first];
    if (m->tensors[tensor].magnitude < 0)
        return ZERO_OK;
    double *sums = zr_alloc((size_t)(outputs + 1) * sizeof *sums, error);
    zero_status status = sums ? add_squares(source, tensor, sums, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = read_half(m, m->tensors[tensor].magnitude, false, &m->factors, error);
    for (int64_t i = 0; i < outputs && status == ZERO_OK; i++)
        m->factors[i] = sums[i] > 0 ? (float)(m->factors[i] / sqrt(sums[i])) : 0;
    zr_free(sums);
    return status;
}

static zero_status prepare_tensor(zr_source *source, int tensor, zero_error *error)
{
    struct zr_merge *m = source->merge;
    if (m->current == tensor)
        return ZERO_OK;
    ZERO_TRY(read_halves(m, tensor, &source->vectors[0].tensors[tensor], error));
    ZERO_TRY(find_factors(source, tensor, error));
    m->current = tensor;
    return ZERO_OK;
}

zero_status zr_merge_read(zr_source *source, int tensor, int64_t first, int64_t bytes, void *out,
                          zero_error *error)
{
    struct zr_merge *m = source->merge;
    const zr_source_tensor *whole = &source->vectors[0].tensors[tensor];
    int64_t width = width_of(whole->dtype);
    if (m->tensors[tensor].instead >= 0)
        return zr_source_read(&m->adapter, 0, m->tensors[tensor].instead, first, bytes, out, error);
    if (m->tensors[tensor].a < 0)
        return source->ops->read(source, 0, tensor, first, bytes, out, error);
    ZERO_TRY(prepare_tensor(source, tensor, error));
    for (int64_t at = first / width, end = (first + bytes) / width, n; at < end; at += n) {
        char *to = (char *)out + (at * width - first);
        n = ZR_MIN(end - at, BLOCK);
        ZERO_TRY(read_sum(source, tensor, at, n, error));
        for (int64_t i = 0; i < n && m->factors; i++)
            m->wide[i] *= m->factors[output_of(m, whole, at + i)];
        zr_narrow(m->tensors[tensor].as, m->wide, n, to);
    }
    return ZERO_OK;
}
