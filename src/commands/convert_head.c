#include "commands/convert_head.h"

#include "checkpoint/model_view.h"
#include "model/lm_table.h"
#include <zero/comm.h>

#include <string.h>

static bool differs_in_safetensors(const char *weights, const zr_weights_options *how)
{
    const zr_weight_view nothing = {.tensor_count = 0};
    zr_st_set set;
    zero_comm *self = NULL;
    bool differs = false;
    if (zero_comm_self(&self, NULL) != ZERO_OK)
        return false;
    if (zr_st_open(weights, &set, NULL) == ZERO_OK) {
        if (zr_weights_compare_head(self, &set, &nothing, how, &differs, NULL) != ZERO_OK)
            differs = false;
        zr_st_close(&set);
    }
    zero_comm_destroy(self);
    return differs;
}

// Returns the number of a tensor, whose name in the file may have a prefix; -1 if there is none.
static int find_tensor(const zr_source_vector *weights, const char *prefix, const char *name)
{
    size_t length = prefix ? strlen(prefix) : 0;
    for (int t = 0; t < weights->tensor_count; t++) {
        const char *found = weights->tensors[t].name;
        bool begins = length && !strncmp(found, prefix, length);
        if (!strcmp(found, name) || (begins && !strcmp(found + length, name)))
            return t;
    }
    return -1;
}

static bool bytes_differ(zr_source *source, int a, int b, int64_t bytes)
{
    char first[8192], second[8192];
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = ZR_MIN(bytes - done, (int64_t)sizeof first);
        if (zr_source_read(source, 0, a, done, n, first, NULL) != ZERO_OK ||
            zr_source_read(source, 0, b, done, n, second, NULL) != ZERO_OK)
            return false;
        if (memcmp(first, second, (size_t)n) != 0)
            return true;
    }
    return false;
}

static bool differs_in_source(zr_source *source, const char *prefix, const zr_weights_options *how)
{
    const zr_source_vector *weights = &source->vectors[0];
    int head = find_tensor(weights, prefix, how->tied_head),
        table = find_tensor(weights, prefix, how->table);
    if (head < 0 || table < 0)
        return false;
    const zr_source_tensor *a = &weights->tensors[head], *b = &weights->tensors[table];
    return strcmp(a->dtype, b->dtype) != 0 || a->bytes != b->bytes ||
           bytes_differ(source, head, table, a->bytes);
}

bool zr_convert_head_differs(zr_source *source, const zr_lm_config *config)
{
    zr_weights_options how = {.seed = 0};
    zr_weights_name_head(config, &how);
    return source->kind == ZR_SOURCE_SAFETENSORS
               ? differs_in_safetensors(source->path, &how)
               : differs_in_source(source, zr_architecture_of(config)->file_prefix, &how);
}
