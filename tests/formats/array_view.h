// A view of weights in memory: ranges in an array.
#ifndef TEST_CHECKPOINT_ARRAY_VIEW_H
#define TEST_CHECKPOINT_ARRAY_VIEW_H

#include "formats/weight_files.h"

typedef struct array_view {
    zr_weight_view view;
    zr_weight_range *ranges; // (count)
    int count;
} array_view;

static inline zero_status array_view_each(void *user, int part, bool changed, zr_range_use use,
                                          void *use_user, zero_error *error)
{
    const array_view *array = user;
    for (int i = 0; i < array->count; i++)
        ZERO_TRY(use(use_user, &array->ranges[i], error));
    return ZERO_OK;
}

static inline zero_status array_view_outline(void *user, int part, zr_range_use use, void *use_user,
                                             zero_error *error)
{
    const array_view *array = user;
    for (int i = 0; i < array->count; i++)
        ZERO_TRY(
            use(use_user,
                &(zr_weight_range){.tensor = array->ranges[i].tensor, .at = array->ranges[i].at},
                error));
    return ZERO_OK;
}

// Fills in the view. `array` must not move afterwards.
static inline void array_view_fill(array_view *array, const zero_tensor_desc *const *tensors,
                                   int tensor_count, zr_weight_range *ranges, int count)
{
    *array = (array_view){.view = {.tensors = tensors,
                                   .tensor_count = tensor_count,
                                   .parts = 1,
                                   .each = array_view_each,
                                   .outline = array_view_outline,
                                   .user = array},
                          .ranges = ranges,
                          .count = count};
    for (int i = 0; i < count; i++)
        array->view.elements += zr_rectangle_elements(&ranges[i].at);
}

#endif
