// The names that a pickle may use. To allow another, add a row. They are never called as Python
// would call them, whatever the pickle contains.
#include "formats/pickle.h"

#include <string.h>

static const zr_pickle_name names[] = {
    {"collections", "OrderedDict", ZR_ROLE_DICT},
    {"collections", "defaultdict", ZR_ROLE_DICT},
    {"__builtin__", "set", ZR_ROLE_LIST},
    {"builtins", "set", ZR_ROLE_LIST},
    {"torch", "Size", ZR_ROLE_LIST},
    {"__builtin__", "dict", ZR_ROLE_OBJECT}, // as defaultdict's factory
    {"__builtin__", "list", ZR_ROLE_OBJECT},

    {"torch._utils", "_rebuild_tensor_v2", ZR_ROLE_TENSOR},
    {"torch._utils", "_rebuild_parameter", ZR_ROLE_PARAMETER},
    {"torch._tensor", "_rebuild_from_type_v2", ZR_ROLE_TYPED},
    {"torch", "Tensor", ZR_ROLE_OBJECT},
    {"torch.nn.parameter", "Parameter", ZR_ROLE_OBJECT},
    {"torch", "device", ZR_ROLE_OBJECT},

    {"torch", "FloatStorage", ZR_ROLE_STORAGE, "F32"},
    {"torch", "HalfStorage", ZR_ROLE_STORAGE, "F16"},
    {"torch", "BFloat16Storage", ZR_ROLE_STORAGE, "BF16"},
    {"torch", "DoubleStorage", ZR_ROLE_STORAGE, "F64"},
    {"torch", "LongStorage", ZR_ROLE_STORAGE, "I64"},
    {"torch", "IntStorage", ZR_ROLE_STORAGE, "I32"},
    {"torch", "ShortStorage", ZR_ROLE_STORAGE, "I16"},
    {"torch", "CharStorage", ZR_ROLE_STORAGE, "I8"},
    {"torch", "ByteStorage", ZR_ROLE_STORAGE, "U8"},
    {"torch", "BoolStorage", ZR_ROLE_STORAGE, "BOOL"},

    {"torch", "float32", ZR_ROLE_DTYPE, "F32"},
    {"torch", "float16", ZR_ROLE_DTYPE, "F16"},
    {"torch", "bfloat16", ZR_ROLE_DTYPE, "BF16"},
    {"torch", "float64", ZR_ROLE_DTYPE, "F64"},
    {"torch", "int64", ZR_ROLE_DTYPE, "I64"},
    {"torch", "int32", ZR_ROLE_DTYPE, "I32"},
    {"torch", "uint8", ZR_ROLE_DTYPE, "U8"},
    {"torch", "bool", ZR_ROLE_DTYPE, "BOOL"},

    {"deepspeed.runtime.fp16.loss_scaler", "LossScaler", ZR_ROLE_OBJECT},
    {"deepspeed.runtime.fp16.loss_scaler", "DynamicLossScaler", ZR_ROLE_OBJECT},
    {"deepspeed.runtime.zero.config", "ZeroStageEnum", ZR_ROLE_OBJECT},
    {"deepspeed.utils.tensor_fragment", "fragment_address", ZR_ROLE_OBJECT},
    {"deepspeed.runtime.zero.offload_config", "OffloadDeviceEnum", ZR_ROLE_OBJECT},
    {"deepspeed.runtime.zero.offload_config", "OffloadStateTypeEnum", ZR_ROLE_OBJECT},
};

static bool text_is(const char *row, const char *text, size_t length)
{
    return strlen(row) == length && !memcmp(row, text, length);
}

const zr_pickle_name *zr_pickle_name_find(const char *module, size_t module_length,
                                          const char *name, size_t length)
{
    for (int i = 0; i < ZR_COUNT(names); i++)
        if (text_is(names[i].module, module, module_length) && text_is(names[i].name, name, length))
            return &names[i];
    return NULL;
}
