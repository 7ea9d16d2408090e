// Turns a pickle's names and references into storages, tensors, containers and inert objects.
#include "formats/pickle_machine.h"

#include <string.h>

typedef struct zr_pickle_machine machine;

static bool is_digits(value v)
{
    if (!zr_pickle_is(v, ZR_PICKLE_TEXT) || !v->text.length || v->text.length > 18)
        return false;
    return strspn(v->text.at, "0123456789") == v->text.length;
}

// Takes ("storage", its type, key, place, elements).
zero_status zr_pickle_persistent(machine *m, const unsigned char *a)
{
    value id, type, key;
    int64_t elements;
    ZERO_TRY(zr_pickle_pop(m, &id));
    const char *what = zr_pickle_text(zr_pickle_at(id, 0));
    type = zr_pickle_at(id, 1);
    key = zr_pickle_at(id, 2);
    bool is_storage = what && !strcmp(what, "storage") && zr_pickle_is(type, ZR_PICKLE_NAME) &&
                      type->name->role == ZR_ROLE_STORAGE && is_digits(key);
    if (!is_storage || !zr_pickle_integer(zr_pickle_at(id, 4), &elements) || elements < 0)
        return zr_pickle_refuse(m, "it refers to something that is not a storage");
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_STORAGE);
    if (made)
        made->storage = (zr_pickle_storage){type->name->dtype, key->text.at, elements};
    return zr_pickle_push(m, made);
}

static bool is_shape(value shape, value strides)
{
    return zr_pickle_is(shape, ZR_PICKLE_TUPLE) && zr_pickle_is(strides, ZR_PICKLE_TUPLE) &&
           shape->items.count == strides->items.count && shape->items.count <= ZR_PICKLE_DIMS;
}

static bool is_dimension(value size, value stride, int64_t *elements, int64_t *apart)
{
    return zr_pickle_integer(size, elements) && zr_pickle_integer(stride, apart) &&
           *elements >= 0 && *apart >= 0;
}

// Adds a dimension's reach to *last, the last element of the storage that the tensor uses; false if
// that overflows.
static bool advance_last(int64_t size, int64_t stride, int64_t *last)
{
    int64_t reach;
    return !size || (!__builtin_mul_overflow(size - 1, stride, &reach) &&
                     !__builtin_add_overflow(*last, reach, last));
}

// Checks shape and strides against the storage: no element may lie outside it.
static zero_status check_tensor(machine *m, value shape, value strides, zr_pickle_tensor *out)
{
    int64_t last = out->offset, expected = 1;
    if (!is_shape(shape, strides))
        return zr_pickle_refuse(m, "a tensor without a shape of at most 8 dimensions");
    out->elements = 1;
    out->dims = (int)shape->items.count;
    out->contiguous = true;
    for (int d = out->dims - 1; d >= 0; d--) {
        int64_t size, stride;
        if (!is_dimension(shape->items.at[d], strides->items.at[d], &size, &stride))
            return zr_pickle_refuse(m, "a tensor of a shape that is none");
        out->shape[d] = size;
        out->contiguous = out->contiguous && (size <= 1 || stride == expected);
        if (__builtin_mul_overflow(out->elements, size, &out->elements) ||
            __builtin_mul_overflow(expected, ZR_MAX(size, 1), &expected) ||
            !advance_last(size, stride, &last))
            return zr_pickle_refuse(m, "a tensor that is too large");
    }
    bool inside =
        out->elements ? last < out->storage->elements : out->offset <= out->storage->elements;
    return inside ? ZERO_OK : zr_pickle_refuse(m, "a tensor that reaches outside of its storage");
}

// Takes (storage, offset, shape, strides, ...).
static zero_status make_tensor(machine *m, value arguments, value *out)
{
    value storage = zr_pickle_at(arguments, 0);
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_TENSOR);
    if (!made)
        return zr_pickle_failed(m);
    if (!zr_pickle_is(storage, ZR_PICKLE_STORAGE) ||
        !zr_pickle_integer(zr_pickle_at(arguments, 1), &made->tensor.offset) ||
        made->tensor.offset < 0)
        return zr_pickle_refuse(m, "a tensor without a storage");
    made->tensor.storage = &storage->storage;
    *out = made;
    return check_tensor(m, zr_pickle_at(arguments, 2), zr_pickle_at(arguments, 3), &made->tensor);
}

static zero_status make_list(machine *m, value arguments, value *out)
{
    value of = zr_pickle_at(arguments, 0);
    if (!of || (of->kind != ZR_PICKLE_LIST && of->kind != ZR_PICKLE_TUPLE))
        return zr_pickle_refuse(m, "a list of what is none");
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_TUPLE);
    if (!made)
        return zr_pickle_failed(m);
    made->items =
        (zr_pickle_items){.at = of->items.at, .count = of->items.count, .room = of->items.count};
    *out = made;
    return ZERO_OK;
}

static zero_status make_object(machine *m, const zr_pickle_name *of, value arguments, value *out)
{
    zr_pickle_value *made =
        zr_pickle_make(m, of->role == ZR_ROLE_DICT ? ZR_PICKLE_DICT : ZR_PICKLE_OBJECT);
    if (!made)
        return zr_pickle_failed(m);
    if (made->kind == ZR_PICKLE_OBJECT) {
        made->object.of = of;
        made->object.arguments = arguments;
    }
    *out = made;
    return ZERO_OK;
}

static zero_status call_constructor(machine *m, const zr_pickle_name *name, value arguments,
                                    value *out)
{
    value how = zr_pickle_at(arguments, 0), inner = zr_pickle_at(arguments, 2);
    switch (name->role) {
    case ZR_ROLE_DICT:
    case ZR_ROLE_OBJECT: return make_object(m, name, arguments, out);
    case ZR_ROLE_LIST: return make_list(m, arguments, out);
    case ZR_ROLE_TENSOR: return make_tensor(m, arguments, out);
    case ZR_ROLE_PARAMETER:
        *out = how;
        return zr_pickle_is(how, ZR_PICKLE_TENSOR)
                   ? ZERO_OK
                   : zr_pickle_refuse(m, "a parameter that is no tensor");
    case ZR_ROLE_TYPED:
        if (!zr_pickle_is(how, ZR_PICKLE_NAME) || how->name->role != ZR_ROLE_TENSOR)
            return zr_pickle_refuse(m, "a tensor that is put together in a way not known");
        return make_tensor(m, inner, out);
    default: return zr_pickle_refuse(m, "it calls what cannot be called");
    }
}

zero_status zr_pickle_reduce(machine *m, const unsigned char *a)
{
    value arguments, callee, made = NULL;
    ZERO_TRY(zr_pickle_pop(m, &arguments));
    ZERO_TRY(zr_pickle_pop(m, &callee));
    if (arguments->kind != ZR_PICKLE_TUPLE || callee->kind != ZR_PICKLE_NAME)
        return zr_pickle_refuse(m, "it calls what cannot be called");
    ZERO_TRY(call_constructor(m, callee->name, arguments, &made));
    return zr_pickle_push(m, made);
}

// Attributes are kept in inert objects; those of dicts (torch's _metadata) are dropped, since they
// do not concern weights.
zero_status zr_pickle_build(machine *m, const unsigned char *a)
{
    value state, of;
    ZERO_TRY(zr_pickle_pop(m, &state));
    ZERO_TRY(zr_pickle_pop(m, &of));
    if (of->kind == ZR_PICKLE_OBJECT && state->kind == ZR_PICKLE_DICT)
        ((zr_pickle_value *)of)->object.attributes = state;
    else if (of->kind != ZR_PICKLE_DICT || state->kind != ZR_PICKLE_DICT)
        return zr_pickle_refuse(m, "it gives attributes to what has none");
    return zr_pickle_push(m, of);
}
