// The largest model of a family that fits into a rank's memory in each way of a comparison, by its
// plan: the model's own shape, or one as many times as wide, with as many layers as fit.
#include "tune/comparison.h"

#include "model/unit.h"

enum { USUAL_LAYERS = 48, MOST_LAYERS = 1024, MOST_WIDENING = 64 };

// Returns the shape with `layers` layers, `times` as wide and with `times` as many heads.
static zr_lm_config enlarged_shape(const zr_lm_config *from, int64_t times, int64_t layers)
{
    zr_lm_config shape = *from;
    zr_lm_enlarge(&shape, times, layers);
    return shape;
}

// Returns the parameters of a model of this shape if it fits; 0 if it does not, or cannot be
// planned.
static int64_t parameters_if_fits(const zr_comparison *c, const zr_compare_row *row,
                                  const zr_lm_config *shape)
{
    const zr_estimate_question question = zr_compare_question(c, row, shape, 0);
    zr_estimate estimate;
    bool fits = zr_estimate_make(&question, &estimate, NULL) == ZERO_OK && estimate.fits;
    int64_t parameters = fits ? zr_model_parameters(estimate.whole) : 0;
    zr_estimate_free(&estimate);
    return parameters;
}

void zr_compare_choose_family(zr_comparison *c)
{
    const zr_compare_row *data = &c->rows[0];
    c->widened = 1;
    while (data->config && c->widened < MOST_WIDENING) {
        const zr_lm_config shape = enlarged_shape(&c->subject.model, c->widened, USUAL_LAYERS);
        if (!parameters_if_fits(c, data, &shape))
            break;
        c->widened *= 2;
    }
    c->family =
        enlarged_shape(&c->subject.model, c->widened, zr_lm_shape_of(&c->subject.model).layers);
}

// Returns whether a model of `layers` layers fits, and stores the largest that does.
static bool try_layers(zr_comparison *c, zr_compare_row *row, int64_t layers)
{
    const zr_lm_config shape = enlarged_shape(&c->family, 1, layers);
    int64_t parameters = parameters_if_fits(c, row, &shape);
    if (parameters > row->parameters) {
        row->parameters = parameters;
        row->layers = layers;
    }
    return parameters > 0;
}

// A pipeline needs a layer or more for each stage, so the search begins where every way has one.
void zr_compare_find_largest(zr_comparison *c, zr_compare_row *row)
{
    int64_t fits = 0, least = row->way.stages, beyond = least;
    if (!row->config)
        return;
    while (beyond <= MOST_LAYERS && try_layers(c, row, beyond)) {
        fits = beyond;
        beyond *= 2;
    }
    row->larger = beyond > MOST_LAYERS;
    while (!row->larger && fits > 0 && beyond - fits > 1) {
        int64_t middle = fits + (beyond - fits) / 2;
        if (try_layers(c, row, middle))
            fits = middle;
        else
            beyond = middle;
    }
}
