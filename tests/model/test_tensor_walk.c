// Tensors of a model as files have them: tiles count as the one tensor that they make up, and the
// tensor before them does not.
#include "model/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define TENSOR(text, rows)                                                                         \
    {                                                                                              \
        .name = (text), .dims = 2, .shape = { rows, 3 }                                            \
    }
#define TILE(text, of, begin, rows, all)                                                           \
    {                                                                                              \
        .name = (text), .dims = 2, .shape = {rows, 3}, .tile = {                                   \
            .whole = (of),                                                                         \
            .first = (begin),                                                                      \
            .size = (all)                                                                          \
        }                                                                                          \
    }
static const zero_tensor_desc a[] = {TENSOR("a", 2), TENSOR("b", 4)},
                              c0 = TILE("c[0]", "c", 0, 4, 6), c1 = TILE("c[1]", "c", 4, 2, 6),
                              d0 = TILE("d[0]", "d", 0, 1, 2), d1 = TILE("d[1]", "d", 1, 1, 2),
                              e = TENSOR("e", 5);
static const zero_flat_param_desc
    first[] = {{.kind = ZERO_TRAINABLE, .tensor_count = 2, .tensors = a},
               {.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &c0},
               {.kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = &c1},
               {.kind = ZERO_FROZEN, .tensor_count = 1, .tensors = &d0},
               {.kind = ZERO_FROZEN, .tensor_count = 1, .tensors = &d1}},
    last[] = {{.kind = ZERO_BUFFER, .tensor_count = 1, .tensors = &e}};
static const zero_unit units[] = {{.name = "first", .flat_param_count = 5, .flat_params = first},
                                  {.name = "without pieces"},
                                  {.name = "last", .flat_param_count = 1, .flat_params = last}};
static const zero_model model = {.name = "m", .unit_count = 3, .units = units};

static void expect(const zr_tensor_walk *w, int number, const char *name, zero_class kind,
                   int64_t rows)
{
    assert_non_null(w->desc);
    const zero_tensor_desc whole = zr_tensor_whole(w->desc);
    assert_int_equal(w->number, number);
    assert_string_equal(zr_tensor_name(w->desc), name);
    assert_string_equal(whole.name, name);
    assert_null(whole.tile.whole);
    assert_int_equal(whole.shape[0], rows);
    assert_int_equal(whole.shape[1], 3);
    assert_int_equal(w->kind, kind);
}

static void tiles_are_one_tensor(void **state)
{
    static const struct {
        const char *name;
        zero_class kind;
        int64_t rows;
    } all[] = {{"a", ZERO_TRAINABLE, 2},
               {"b", ZERO_TRAINABLE, 4},
               {"c", ZERO_TRAINABLE, 6},
               {"d", ZERO_FROZEN, 2},
               {"e", ZERO_BUFFER, 5}};
    int count = 0;
    for (zr_tensor_walk w = zr_tensors_of(&model); w.desc; zr_tensors_next(&w), count++)
        expect(&w, count, all[count].name, all[count].kind, all[count].rows);
    assert_int_equal(count, 5);
    assert_int_equal(zr_tensors_count(zr_tensors_of(&model)), 5);
}

static void units_begin_at_zero(void **state)
{
    zr_tensor_walk w = zr_tensors_of_unit(&model, 2);
    expect(&w, 0, "e", ZERO_BUFFER, 5);
    zr_tensors_next(&w);
    assert_null(w.desc);
    assert_int_equal(zr_tensors_count(zr_tensors_of_unit(&model, 0)), 4);
    assert_int_equal(zr_tensors_count(zr_tensors_of_unit(&model, 1)), 0);
}

static void a_number_is_of_one_tensor(void **state)
{
    assert_ptr_equal(zr_model_tensor(&model, 0), &a[0]);
    assert_ptr_equal(zr_model_tensor(&model, 2), &c0);
    assert_ptr_equal(zr_model_tensor(&model, 3), &d0);
    assert_ptr_equal(zr_model_tensor(&model, 4), &e);
    assert_null(zr_model_tensor(&model, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_one_tensor),
        cmocka_unit_test(units_begin_at_zero),
        cmocka_unit_test(a_number_is_of_one_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
