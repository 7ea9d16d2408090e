#include "formats/weight_view.h"

#include "base/dtype.h"
#include "base/file.h"
#include "model/unit.h"

#include <stdio.h>
#include <string.h>

zero_status zr_view_each(const zr_weight_view *view, bool changed, zr_range_use use, void *user,
                         zero_error *error)
{
    for (int part = 0; part < view->parts; part++)
        ZERO_TRY(view->each(view->user, part, changed, use, user, error));
    return ZERO_OK;
}

int zr_view_find(const zr_weight_view *view, const zero_tensor_desc *tensor, int last)
{
    int place = last;
    // It is the same one as before or, most often, the one after it.
    for (int i = 1; i < view->tensor_count && view->tensors[place] != tensor; i++)
        place = place + 1 < view->tensor_count ? place + 1 : 0;
    assert(view->tensors[place] == tensor);
    return place;
}

// Writes "50257 x 768", or "scalar" if there are no dimensions.
static void format_shape(const int64_t *shape, int dims, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, dims ? "" : "scalar");
    for (int d = 0; d < dims && used < size; d++)
        used +=
            (size_t)snprintf(out + used, size - used, d ? " x %lld" : "%lld", (long long)shape[d]);
}

zero_status zr_view_check_shape(const char *path, const zero_tensor_desc *wanted, int found_dims,
                                const int64_t *found_shape, zero_error *error)
{
    char found[192], expected[192];
    if (found_dims == wanted->dims &&
        !memcmp(found_shape, wanted->shape, (size_t)wanted->dims * sizeof *wanted->shape))
        return ZERO_OK;
    format_shape(wanted->shape, wanted->dims, expected, sizeof expected);
    if (found_dims < 0)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has no tensor \"%s\" (%s), which the model needs", path,
                       wanted->name, expected);
    format_shape(found_shape, found_dims, found, sizeof found);
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\": tensor \"%s\" is %s, where the model has %s",
                   path, wanted->name, found, expected);
}

zero_status zr_view_check_coverage(zero_comm *comm, const zr_weight_view *view, const char *what,
                                   const char *path, zero_error *error)
{
    int64_t held = view->elements, needed = 0;
    for (int t = 0; t < view->tensor_count; t++)
        needed += zr_tensor_desc_elements(view->tensors[t]);
    ZERO_TRY(zr_comm_all_reduce_small(comm, &held, 1, ZERO_I64, ZR_SUM, error));
    if (held != needed)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "writing %s of \"%s\": the ranks hold %lld elements of a model of %lld",
                       what, path, (long long)held, (long long)needed);
    return ZERO_OK;
}

zero_status zr_view_file_create(const zr_weight_view *view, zero_dtype dtype, const char *prefix,
                                zr_view_file *out, zero_error *error)
{
    *out = (zr_view_file){.view = view, .dtype = dtype};
    zr_st_entry *entries = zr_alloc((size_t)(view->tensor_count + 1) * sizeof *entries, error);
    if (!entries)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < view->tensor_count; t++)
        entries[t] = (zr_st_entry){.name = view->tensors[t]->name,
                                   .dtype = dtype,
                                   .dims = view->tensors[t]->dims,
                                   .shape = view->tensors[t]->shape};
    zero_status status =
        zr_st_layout_create(entries, view->tensor_count, prefix, &out->layout, error);
    zr_free(entries);
    return status;
}

void zr_view_file_free(zr_view_file *file) { zr_st_layout_free(&file->layout); }

zero_status zr_view_file_begin(const zr_view_file *file, int fd, const char *path,
                               zero_error *error)
{
    ZERO_TRY(zr_file_reserve(fd, file->layout.total, path, error));
    return zr_file_pwrite(fd, file->layout.header.data, file->layout.header.length, 0, path, error);
}

// Returns elements [first, first+count) of the range in the file's type: in place, or converted
// into the block.
static const void *as_stored(zero_dtype dtype, const zr_weight_range *range, int64_t first,
                             int64_t count, char *block)
{
    const char *data = (const char *)range->data + first * (int64_t)zero_dtype_bytes(range->dtype);
    float *wide = (float *)(void *)block;
    if (range->dtype == dtype)
        return data;
    zr_widen(range->dtype, data, count, wide);
    if (dtype == ZERO_F32)
        return wide;
    zr_narrow(dtype, wide, count, block + ZR_VIEW_EXTENT);
    return block + ZR_VIEW_EXTENT;
}

static zr_direct_extent place_of_view_extent(const zr_view_file *file, const zr_view_extent *extent)
{
    const zr_rectangle bytes =
        zr_rectangle_scaled(&extent->at, (int64_t)zero_dtype_bytes(file->dtype));
    return (zr_direct_extent){.offset = file->layout.begin[extent->tensor] + bytes.first,
                              .width = bytes.width,
                              .stride = bytes.stride,
                              .rows = bytes.rows};
}

zero_status zr_view_file_write(zr_view_file *file, const zr_weight_range *range, char *block,
                               zr_extent_write write, void *user, zero_error *error)
{
    int64_t most = ZR_VIEW_EXTENT / (int64_t)sizeof(float),
            count = zr_rectangle_elements(&range->at);
    assert(range->at.first >= 0 && count >= 0 &&
           zr_rectangle_end(&range->at) <= zr_tensor_desc_elements(range->tensor));
    file->last = zr_view_find(file->view, range->tensor, file->last);
    for (int64_t done = 0, n; done < count; done += n) {
        zr_view_extent extent = {.tensor = file->last};
        n = zr_rectangle_take(&range->at, done, most, &extent.at);
        extent.place = place_of_view_extent(file, &extent);
        extent.data = as_stored(file->dtype, range, done, n, block);
        ZERO_TRY(write(user, &extent, error));
    }
    return ZERO_OK;
}
