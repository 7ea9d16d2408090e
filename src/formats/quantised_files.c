#include "formats/quantised_files.h"

#include "base/dynamic_map.h"
#include "base/file.h"
#include "base/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WEIGHT ".weight"
#define SCALES ".absmax"
#define SHARED ".nested_absmax"
#define STATE ".quant_state.bitsandbytes__nf4"
enum {
    NAME = 256,
    KEPT = 32,           // weights whose scales are kept
    AT_ONCE = 1 << 16,   // elements; a multiple of a block
    MOST_STATE = 1 << 16 // bytes of JSON
};

typedef struct scales { // of a weight in nf4
    char name[NAME];    // of the weight; empty: there are none
    uint8_t *codes;
    float *shared;
} scales;

struct zr_codes {
    const zr_st_set *set;
    zr_weight_format format;
    scales kept[KEPT];
    int next;    // of `kept` to be replaced
    float *wide; // AT_ONCE, or a row
    int64_t wide_count;
};

typedef enum part_of_weight { CODES, SCALES_OF, SHARED_OF } part_of_weight;

typedef struct weight { // whose bytes are asked for
    char name[NAME];    // of the codes
    part_of_weight part;
    const zr_st_tensor *plain;  // in the files, or NULL
    const zr_st_tensor *stored; // its codes in the files, or NULL
    int64_t out, in;
} weight;

zero_status zr_codes_open(const zr_st_set *set, zr_weight_format format, zr_codes **out,
                          zero_error *error)
{
    zr_codes *codes = zr_alloc(sizeof *codes, error);
    *out = codes;
    if (!codes)
        return ZERO_ERR_MEMORY;
    *codes = (zr_codes){.set = set, .format = format};
    return ZERO_OK;
}

static void forget(scales *kept)
{
    zr_free(kept->codes);
    zr_free(kept->shared);
    *kept = (scales){.codes = NULL};
}

void zr_codes_close(zr_codes *codes)
{
    if (!codes)
        return;
    for (int i = 0; i < KEPT; i++)
        forget(&codes->kept[i]);
    zr_free(codes->wide);
    zr_free(codes);
}

// Returns room for `count` elements.
static float *wide_room(zr_codes *codes, int64_t count, zero_error *error)
{
    if (codes->wide_count >= count)
        return codes->wide;
    zr_free(codes->wide);
    codes->wide = zr_alloc((size_t)count * sizeof *codes->wide, error);
    codes->wide_count = codes->wide ? count : 0;
    return codes->wide;
}

// ---- names

// Cuts an ending from a name; returns whether it had it.
static bool cut_ending(char *name, const char *ending)
{
    size_t length = strlen(name), cut = strlen(ending);
    bool ends = length > cut && !strcmp(name + length - cut, ending);
    if (ends)
        name[length - cut] = 0;
    return ends;
}

static const zr_st_tensor *find_beside(const zr_codes *codes, const char *weight,
                                       const char *ending)
{
    char name[NAME + 64];
    snprintf(name, sizeof name, "%s%s", weight, ending);
    return zr_st_find(codes->set, name);
}

static const zr_st_tensor *find_row_scales(const zr_codes *codes, const char *weight)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s", weight);
    return cut_ending(name, WEIGHT) ? find_beside(codes, name, ".SCB") : NULL;
}

static bool is_stored(const zr_codes *codes, const zr_st_tensor *found)
{
    return !strcmp(found->dtype, codes->format == ZR_WEIGHT_NF4 ? "U8" : "I8");
}

// Finds the weight to which a tensor of a view belongs. The shapes of its codes say its sizes.
static weight find_weight(const zr_codes *codes, const zero_tensor_desc *tensor)
{
    weight w = {.part = CODES};
    snprintf(w.name, sizeof w.name, "%s", tensor->name);
    if (cut_ending(w.name, SHARED))
        w.part = SHARED_OF;
    else if (cut_ending(w.name, SCALES))
        w.part = SCALES_OF;
    const zr_st_tensor *found = zr_st_find(codes->set, w.name);
    if (!found)
        return w;
    *(is_stored(codes, found) ? &w.stored : &w.plain) = found;
    w.out = found->shape[0];
    w.in = found->dims == 2 ? found->shape[1] : 0;
    if (w.stored && codes->format == ZR_WEIGHT_NF4 && w.part != SHARED_OF) {
        // What is stored has no shape; that of the view's tensor has.
        w.out = tensor->shape[0];
        w.in = tensor->shape[1] * (w.part == CODES ? 2 : ZR_NF4_BLOCK);
    }
    return w;
}

bool zr_codes_uses(const zr_codes *codes, const char *name)
{
    static const char *const endings[] = {SCALES, SHARED, STATE, ".quant_map", ".nested_quant_map"};
    char weight[NAME];
    snprintf(weight, sizeof weight, "%s", name);
    for (int i = 0; i < ZR_COUNT(endings); i++)
        if (cut_ending(weight, endings[i]))
            return zr_st_find(codes->set, weight);
    if (!cut_ending(weight, ".SCB") && !cut_ending(weight, ".weight_format"))
        return false;
    return find_beside(codes, weight, WEIGHT);
}

// ---- checks

static int64_t elements_of(const zr_st_tensor *tensor)
{
    int64_t elements = 1;
    for (int d = 0; d < tensor->dims; d++)
        elements *= tensor->shape[d];
    return elements;
}

static zero_status check_beside(const zr_codes *codes, const weight *w, const char *name,
                                const zr_st_tensor *found, const char *dtype, int64_t elements,
                                zero_error *error)
{
    if (found && !strcmp(found->dtype, dtype) && elements_of(found) == elements)
        return ZERO_OK;
    return zr_fail(error, found ? ZERO_ERR_DATA : ZERO_ERR_UNSUPPORTED,
                   "%s: the tensor \"%s\" is in %s: its \"%s\" is %s, where %lld elements of type "
                   "%s are needed (for nf4: with double quantisation)",
                   codes->set->paths[w->stored->file], w->name,
                   zr_weight_format_name(codes->format), name, found ? "something else" : "missing",
                   (long long)elements, dtype);
}

static int64_t groups_of(const weight *w)
{
    return (w->out * w->in / ZR_NF4_BLOCK + ZR_NF4_GROUP - 1) / ZR_NF4_GROUP;
}

static zero_status check_map(const zr_codes *codes, const weight *w, const char *ending,
                             const float *ours, int count, zero_error *error)
{
    float values[ZR_DYNAMIC_CODES];
    const zr_st_tensor *found = find_beside(codes, w->name, ending);
    ZERO_TRY(check_beside(codes, w, ending, found, "F32", count, error));
    ZERO_TRY(zr_st_read(codes->set, found, 0, count, values, error));
    for (int i = 0; i < count; i++)
        if (values[i] != ours[i])
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "%s: \"%s%s\" has %.9g at place %d, where bitsandbytes' map has %.9g",
                           codes->set->paths[found->file], w->name, ending, (double)values[i], i,
                           (double)ours[i]);
    return ZERO_OK;
}

static zero_status check_stored_nf4(const zr_codes *codes, const weight *w, zero_error *error)
{
    int64_t elements = w->out * w->in;
    const zr_st_tensor *absmax = find_beside(codes, w->name, SCALES),
                       *nested = find_beside(codes, w->name, SHARED);
    ZERO_TRY(check_beside(codes, w, w->name, w->stored, "U8", elements / 2, error));
    ZERO_TRY(check_beside(codes, w, "absmax", absmax, "U8", elements / ZR_NF4_BLOCK, error));
    ZERO_TRY(check_beside(codes, w, "nested_absmax", nested, "F32", groups_of(w), error));
    ZERO_TRY(check_map(codes, w, ".quant_map", zr_nf4_levels, ZR_NF4_LEVELS, error));
    return check_map(codes, w, ".nested_quant_map", zr_signed_map, ZR_DYNAMIC_CODES, error);
}

static int64_t bytes_of_row(const zr_codes *codes, const weight *w)
{
    switch (w->part) {
    case CODES: return zr_weight_code_bytes(codes->format, w->in);
    case SCALES_OF: return zr_weight_scale_bytes(codes->format, w->in);
    default: return zr_weight_shared_bytes(codes->format, w->out, w->in);
    }
}

// Checks that a matrix of the files makes as many bytes as the model needs.
static zero_status check_sizes(const zr_codes *codes, const weight *w, const zr_st_tensor *found,
                               const zero_tensor_desc *tensor, zero_error *error)
{
    int64_t rows = w->part == SHARED_OF ? 1 : w->out, bytes = bytes_of_row(codes, w);
    bool in_blocks = codes->format != ZR_WEIGHT_NF4 || w->in % ZR_NF4_BLOCK == 0;
    if (found->dims == 2 && in_blocks && rows == tensor->shape[0] && bytes == tensor->shape[1])
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: the tensor \"%s\" has %d dimensions, %lld x %lld, of which %s makes %lld x "
                   "%lld bytes; the model needs %lld x %lld",
                   codes->set->paths[found->file], w->name, found->dims, (long long)w->out,
                   (long long)w->in, zr_weight_format_name(codes->format), (long long)rows,
                   (long long)bytes, (long long)tensor->shape[0], (long long)tensor->shape[1]);
}

static zero_status check_stored(const zr_codes *codes, const weight *w,
                                const zero_tensor_desc *tensor, zero_error *error)
{
    const int64_t word = (int64_t)sizeof(float);
    if (w->part == SHARED_OF)
        return check_beside(codes, w, "nested_absmax", find_beside(codes, w->name, SHARED), "F32",
                            tensor->shape[1] / word - 1, error);
    if (codes->format == ZR_WEIGHT_NF4)
        return check_stored_nf4(codes, w, error);
    ZERO_TRY(check_sizes(codes, w, w->stored, tensor, error));
    return check_beside(codes, w, "SCB", find_row_scales(codes, w->name), "F32", w->out, error);
}

zero_status zr_codes_check(zr_codes *codes, const char *directory, const zero_tensor_desc *tensor,
                           zero_error *error)
{
    const weight w = find_weight(codes, tensor);
    if (w.stored)
        return check_stored(codes, &w, tensor, error);
    if (w.plain)
        return check_sizes(codes, &w, w.plain, tensor, error);
    return zr_fail(error, ZERO_ERR_DATA, "%s: the tensor \"%s\" is missing", directory, w.name);
}

// ---- what files have in codes

static zero_status read_raw(const zr_codes *codes, const zr_st_tensor *from, int64_t first,
                            int64_t count, void *out, zero_error *error)
{
    return zr_file_pread(codes->set->fds[from->file], out, (size_t)count, from->begin + first,
                         codes->set->paths[from->file], error);
}

static zero_status read_state(const zr_codes *codes, const weight *w, json_t **out,
                              zero_error *error)
{
    const zr_st_tensor *state = find_beside(codes, w->name, STATE);
    char text[MOST_STATE];
    int64_t bytes = state ? elements_of(state) : 0;
    if (!state || bytes > MOST_STATE || strcmp(state->dtype, "U8"))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the tensor \"%s" STATE "\" is %s",
                       codes->set->paths[w->stored->file], w->name,
                       state ? "no JSON in bytes" : "missing");
    ZERO_TRY(read_raw(codes, state, 0, bytes, text, error));
    *out = json_loadb(text, (size_t)bytes, 0, NULL);
    return *out ? ZERO_OK
                : zr_fail(error, ZERO_ERR_DATA, "%s: the tensor \"%s" STATE "\" is no JSON",
                          codes->set->paths[state->file], w->name);
}

// Reads the mean of the scales, and checks that blocks and groups have the sizes that we know.
static zero_status read_mean(const zr_codes *codes, const weight *w, float *out, zero_error *error)
{
    json_t *state;
    ZERO_TRY(read_state(codes, w, &state, error));
    const json_t *mean = json_object_get(state, "nested_offset");
    int64_t block = (int64_t)json_integer_value(json_object_get(state, "blocksize")),
            group = (int64_t)json_integer_value(json_object_get(state, "nested_blocksize"));
    bool known = json_is_number(mean) && block == ZR_NF4_BLOCK && group == ZR_NF4_GROUP;
    *out = (float)json_number_value(mean);
    json_decref(state);
    if (known)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "%s: the tensor \"%s\" has blocks of %lld and groups of %lld: blocks of %d and "
                   "groups of %d with a nested_offset are read",
                   codes->set->paths[w->stored->file], w->name, (long long)block, (long long)group,
                   ZR_NF4_BLOCK, ZR_NF4_GROUP);
}

// Returns the tensor that has the bytes of a part.
static const zr_st_tensor *stored_part(const zr_codes *codes, const weight *w)
{
    if (w->part == CODES)
        return w->stored;
    return codes->format == ZR_WEIGHT_NF4 ? find_beside(codes, w->name, SCALES)
                                          : find_row_scales(codes, w->name);
}

static zero_status read_stored(const zr_codes *codes, const weight *w, int64_t first, int64_t count,
                               char *out, zero_error *error)
{
    const int64_t word = (int64_t)sizeof(float);
    float mean;
    if (w->part != SHARED_OF)
        return read_raw(codes, stored_part(codes, w), first, count, out, error);
    ZERO_TRY(read_mean(codes, w, &mean, error));
    for (int64_t at = first; at < ZR_MIN(first + count, word); at++)
        *out++ = ((const char *)&mean)[at];
    int64_t rest = ZR_MAX(first, word) - word, end = first + count - word;
    return rest < end
               ? read_raw(codes, find_beside(codes, w->name, SHARED), rest, end - rest, out, error)
               : ZERO_OK;
}

// ---- what is made of plain weights

// Reads elements, and checks that there are codes for them.
static zero_status read_values(zr_codes *codes, const weight *w, int64_t first, int64_t count,
                               float *out, zero_error *error)
{
    const float most = codes->format == ZR_WEIGHT_INT8 ? ZR_INT8_MOST : FLT_MAX;
    ZERO_TRY(zr_st_read(codes->set, w->plain, first, count, out, error));
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(out[i]) <= most))
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: the tensor \"%s\" has the value %g as element %lld, for which %s "
                           "has no code: values are finite and at most %g",
                           codes->set->paths[w->plain->file], w->name, (double)out[i],
                           (long long)(first + i), zr_weight_format_name(codes->format),
                           (double)most);
    return ZERO_OK;
}

// Makes the codes of whole blocks of elements, which begin at element `first`.
static zero_status encode_blocks(zr_codes *codes, const weight *w, int64_t first, int64_t count,
                                 uint8_t *out, zero_error *error)
{
    float *wide = wide_room(codes, AT_ONCE, error);
    if (!wide)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(read_values(codes, w, first, count, wide, error));
    for (int64_t i = 0; i < count; i += ZR_NF4_BLOCK)
        zr_nf4_encode(wide + i, out + i / 2);
    return ZERO_OK;
}

static zero_status make_nf4_codes(zr_codes *codes, const weight *w, int64_t first, int64_t count,
                                  char *out, zero_error *error)
{
    const int64_t block = ZR_NF4_BLOCK / 2; // bytes
    uint8_t made[AT_ONCE / 2];
    for (int64_t at = first, end = first + count, n; at < end; at += n) {
        int64_t from = at / block * block,
                bytes = ZR_MIN(ZR_ROUND_UP(end, block) - from, (int64_t)sizeof made);
        n = ZR_MIN(from + bytes, end) - at;
        ZERO_TRY(encode_blocks(codes, w, from * 2, bytes * 2, made, error));
        memcpy(out + (at - first), made + (at - from), (size_t)n);
    }
    return ZERO_OK;
}

static zero_status measure_blocks(zr_codes *codes, const weight *w, float *made, zero_error *error)
{
    float *wide = wide_room(codes, AT_ONCE, error);
    if (!wide)
        return ZERO_ERR_MEMORY;
    for (int64_t at = 0, elements = w->out * w->in, n; at < elements; at += n) {
        n = ZR_MIN((int64_t)AT_ONCE, elements - at);
        ZERO_TRY(read_values(codes, w, at, n, wide, error));
        for (int64_t i = 0; i < n; i += ZR_NF4_BLOCK)
            made[(at + i) / ZR_NF4_BLOCK] = zr_nf4_scale(wide + i);
    }
    return ZERO_OK;
}

static zero_status make_scales(zr_codes *codes, const weight *w, scales *out, zero_error *error)
{
    int64_t blocks = w->out * w->in / ZR_NF4_BLOCK,
            shared = zr_weight_shared_bytes(ZR_WEIGHT_NF4, w->out, w->in);
    float *exact = zr_alloc((size_t)blocks * sizeof *exact, error);
    out->codes = zr_alloc((size_t)blocks, error);
    out->shared = zr_alloc((size_t)shared, error);
    zero_status status = exact && out->codes && out->shared ? measure_blocks(codes, w, exact, error)
                                                            : ZERO_ERR_MEMORY;
    if (status == ZERO_OK) {
        zr_nf4_encode_scales(exact, blocks, out->codes, out->shared);
        snprintf(out->name, sizeof out->name, "%s", w->name);
    }
    zr_free(exact);
    return status;
}

static zero_status find_scales(zr_codes *codes, const weight *w, const scales **out,
                               zero_error *error)
{
    for (int i = 0; i < KEPT; i++)
        if (!strcmp(codes->kept[i].name, w->name)) {
            *out = &codes->kept[i];
            return ZERO_OK;
        }
    scales *kept = &codes->kept[codes->next];
    codes->next = (codes->next + 1) % KEPT;
    forget(kept);
    ZERO_TRY(make_scales(codes, w, kept, error));
    *out = kept;
    return ZERO_OK;
}

static zero_status make_nf4(zr_codes *codes, const weight *w, int64_t first, int64_t count,
                            char *out, zero_error *error)
{
    const scales *of;
    if (w->part == CODES)
        return make_nf4_codes(codes, w, first, count, out, error);
    ZERO_TRY(find_scales(codes, w, &of, error));
    memcpy(out, (w->part == SCALES_OF ? (const char *)of->codes : (const char *)of->shared) + first,
           (size_t)count);
    return ZERO_OK;
}

// Makes rows one by one: a part of a row, or of its scale, needs the whole row.
static zero_status make_int8(zr_codes *codes, const weight *w, int64_t first, int64_t count,
                             char *out, zero_error *error)
{
    int64_t bytes = bytes_of_row(codes, w), end = first + count;
    float *wide = wide_room(codes, w->in, error);
    int8_t *made = wide ? zr_alloc((size_t)w->in, error) : NULL;
    zero_status status = made ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int64_t row = first / bytes; row * bytes < end && status == ZERO_OK; row++) {
        status = read_values(codes, w, row * w->in, w->in, wide, error);
        if (status != ZERO_OK)
            break;
        float scale = zr_int8_encode(wide, w->in, made);
        int64_t from = ZR_MAX(first, row * bytes), to = ZR_MIN(end, (row + 1) * bytes);
        memcpy(out + (from - first),
               (w->part == CODES ? (const char *)made : (const char *)&scale) +
                   (from - row * bytes),
               (size_t)(to - from));
    }
    zr_free(made);
    return status;
}

zero_status zr_codes_read(zr_codes *codes, const zero_tensor_desc *tensor, int64_t first,
                          int64_t count, void *out, zero_error *error)
{
    const weight w = find_weight(codes, tensor);
    if (w.stored)
        return read_stored(codes, &w, first, count, out, error);
    return (codes->format == ZR_WEIGHT_NF4 ? make_nf4 : make_int8)(codes, &w, first, count, out,
                                                                   error);
}
