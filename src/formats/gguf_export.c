// Writes the tensors of a source into a GGUF file, a block at a time. Rows come in GGUF's order; a
// weight that lies the other way round is turned in bands of as many rows as fit into memory.
#include "formats/gguf_tensors.h"

#include "base/dtype.h"
#include "memory/direct.h"

#include <string.h>

#define BLOCK ((int64_t)1 << 18) // elements moved at a time; a multiple of every type's block
#define BAND ((int64_t)1 << 24)  // elements of a band, at most, unless one row has more

typedef struct exporting {
    zr_gguf_export *export;
    char *in, *out;                // BLOCK elements of 8 bytes; of 4
    float *wide;                   // (BLOCK)
    float *band;                   // rows of a transposed weight; NULL if there is none
    int64_t band_first, band_rows; // the rows that it holds
    zr_direct *direct;
    zero_error *error;
} exporting;

// Reads elements as fp32, `count` of them at most BLOCK.
static zero_status read_block(exporting *e, const zr_gguf_tensor *tensor, int64_t first,
                              int64_t count, float *values)
{
    const zr_source_tensor *from = &e->export->source->vectors[0].tensors[tensor->source];
    int64_t width = zr_st_dtype_find(from->dtype)->bits / 8;
    ZERO_TRY(zr_source_read(e->export->source, 0, tensor->source, first * width, count * width,
                            e->in, e->error));
    zr_source_widen(from->dtype, e->in, count, values);
    if (e->export->progress)
        e->export->progress(e->export->user, count * width);
    return ZERO_OK;
}

static zero_status read_run(exporting *e, const zr_gguf_tensor *tensor, int64_t first,
                            int64_t count, float *values)
{
    for (int64_t done = 0, n; done < count; done += n) {
        n = ZR_MIN(count - done, BLOCK);
        ZERO_TRY(read_block(e, tensor, first + done, n, values + done));
    }
    return ZERO_OK;
}

// Fills the band with the rows from `first` on, which are columns of the source.
static zero_status read_band(exporting *e, const zr_gguf_tensor *tensor, int64_t first)
{
    int64_t rows = ZR_MIN(tensor->rows - first, ZR_MAX(1, BAND / tensor->columns));
    e->band_first = first;
    e->band_rows = rows;
    for (int64_t column = 0; column < tensor->columns; column++)
        for (int64_t done = 0, n; done < rows; done += n) {
            n = ZR_MIN(rows - done, BLOCK);
            ZERO_TRY(read_block(e, tensor, column * tensor->rows + first + done, n, e->wide));
            for (int64_t i = 0; i < n; i++)
                e->band[(done + i) * tensor->columns + column] = e->wide[i];
        }
    return ZERO_OK;
}

// Reads elements of one row in GGUF's order.
static zero_status read_of_row(exporting *e, const zr_gguf_tensor *tensor, int64_t row,
                               int64_t first, int64_t count, float *values)
{
    if (!tensor->transposed)
        return read_run(e, tensor, zr_gguf_row_of_model(tensor, row) * tensor->columns + first,
                        count, values);
    memcpy(values, e->band + (row - e->band_first) * tensor->columns + first,
           (size_t)count * sizeof *values);
    return ZERO_OK;
}

// Reads the elements [first, first + count) of a tensor in GGUF's order.
static zero_status read_elements(exporting *e, const zr_gguf_tensor *tensor, int64_t first,
                                 int64_t count, float *values)
{
    if (tensor->source < 0) {
        memcpy(values, tensor->values + first, (size_t)count * sizeof *values);
        return ZERO_OK;
    }
    if (!tensor->transposed && tensor->order == ZR_GGUF_AS_IS)
        return read_run(e, tensor, first, count, values);
    for (int64_t done = 0, n; done < count; done += n) {
        int64_t row = (first + done) / tensor->columns, at = (first + done) % tensor->columns;
        n = ZR_MIN(count - done, tensor->columns - at);
        ZERO_TRY(read_of_row(e, tensor, row, at, n, values + done));
    }
    return ZERO_OK;
}

static zero_status write_block(exporting *e, const zr_gguf_tensor *tensor, int64_t count,
                               int64_t place)
{
    uint32_t unused;
    if (!zr_gguf_encode(tensor->type, e->wide, count, e->out))
        return zr_fail(e->error, ZERO_ERR_DATA,
                       "the tensor \"%s\" has numbers that are not finite, or too large for %s",
                       tensor->model, tensor->type->name);
    if (!strcmp(tensor->type->name, "f16"))
        e->export->overflowed += zr_f16_overflows(e->wide, count);
    return zr_direct_write(e->direct, 0, place, e->out, (size_t)zr_gguf_bytes(tensor->type, count),
                           &unused, e->error);
}

// Writes the elements [first, end), for which a transposed tensor has its band.
static zero_status write_elements(exporting *e, const zr_gguf_tensor *tensor, int64_t first,
                                  int64_t end, int64_t begin)
{
    for (int64_t n; first < end; first += n) {
        n = ZR_MIN(end - first, BLOCK);
        ZERO_TRY(read_elements(e, tensor, first, n, e->wide));
        ZERO_TRY(write_block(e, tensor, n, begin + zr_gguf_bytes(tensor->type, first)));
    }
    return ZERO_OK;
}

static zero_status write_bands(exporting *e, const zr_gguf_tensor *tensor, int64_t begin)
{
    int64_t size = ZR_MAX(tensor->columns, ZR_MIN(BAND, tensor->rows * tensor->columns));
    e->band = zr_alloc((size_t)size * sizeof *e->band, e->error);
    zero_status status = e->band ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int64_t row = 0; row < tensor->rows && status == ZERO_OK; row += e->band_rows) {
        status = read_band(e, tensor, row);
        if (status == ZERO_OK)
            status = write_elements(e, tensor, row * tensor->columns,
                                    (row + e->band_rows) * tensor->columns, begin);
    }
    zr_free(e->band);
    e->band = NULL;
    return status;
}

// Writes the tensor, and zeros after it up to the place of the next one.
static zero_status write_tensor(exporting *e, const zr_gguf_tensor *tensor, int64_t begin)
{
    static const char zeros[ZR_GGUF_ALIGNMENT];
    int64_t elements = tensor->rows * tensor->columns,
            end = begin + zr_gguf_bytes(tensor->type, elements);
    size_t rest = (size_t)(ZR_ROUND_UP(end, (int64_t)ZR_GGUF_ALIGNMENT) - end);
    uint32_t unused;
    ZERO_TRY(tensor->transposed ? write_bands(e, tensor, begin)
                                : write_elements(e, tensor, 0, elements, begin));
    return rest ? zr_direct_write(e->direct, 0, end, zeros, rest, &unused, e->error) : ZERO_OK;
}

static zero_status write_tensors(exporting *e, const int64_t *offsets, int64_t begin)
{
    zero_status status = ZERO_OK;
    for (int i = 0; i < e->export->count && status == ZERO_OK; i++)
        status = write_tensor(e, &e->export->tensors[i], begin + offsets[i]);
    return status == ZERO_OK ? zr_direct_sync(e->direct, e->error) : status;
}

static zero_status fill_file(exporting *e, const zr_buffer *head, const int64_t *offsets, int fd,
                             char *path)
{
    int64_t begin = (int64_t)head->length;
    ZERO_TRY(zr_file_reserve(fd, begin + e->export->head->data, path, e->error));
    ZERO_TRY(zr_file_pwrite(fd, head->data, head->length, 0, path, e->error));
    ZERO_TRY(zr_direct_create(&(zr_direct_file){fd, path}, 1, &e->direct, e->error));
    zero_status status = write_tensors(e, offsets, begin);
    zr_direct_destroy(e->direct);
    e->export->bytes = begin + e->export->head->data;
    return status;
}

static zero_status write_file(exporting *e, const int64_t *offsets)
{
    zr_buffer head = {0};
    zr_durable file;
    zero_status status = zr_gguf_head(e->export->head, &head, e->error);
    if (status == ZERO_OK)
        status = zr_durable_open(e->export->path, &file, e->error);
    if (status == ZERO_OK) {
        status = fill_file(e, &head, offsets, file.fd, file.temporary);
        if (status == ZERO_OK)
            status = zr_durable_commit(&file, e->error);
        else
            zr_durable_discard(&file);
    }
    zr_buffer_free(&head);
    return status;
}

static int64_t *list_offsets(zr_gguf_export *export, zero_error *error)
{
    int64_t *offsets = zr_alloc(((size_t) export->count + 1) * sizeof *offsets, error);
    for (int i = 0; offsets && i < export->count; i++) {
        const zr_gguf_tensor *of = &export->tensors[i];
        offsets[i] = zr_gguf_put_tensor(export->head, of->name, of->type, of->dims,
                                        (int64_t[]){of->rows, of->columns});
    }
    return offsets;
}

zero_status zr_gguf_write(zr_gguf_export *export, zero_error *error)
{
    exporting e = {.export = export, .error = error};
    int64_t *offsets = list_offsets(export, error);
    e.in = zr_alloc((size_t)BLOCK * sizeof(double), error);
    e.out = zr_alloc((size_t)BLOCK * sizeof *e.wide, error);
    e.wide = zr_alloc((size_t)BLOCK * sizeof *e.wide, error);
    export->bytes = export->overflowed = 0;
    zero_status status =
        offsets && e.in && e.out && e.wide ? write_file(&e, offsets) : ZERO_ERR_MEMORY;
    zr_free(offsets);
    zr_free(e.in);
    zr_free(e.out);
    zr_free(e.wide);
    return status;
}
