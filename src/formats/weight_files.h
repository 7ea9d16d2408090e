// Reads and writes weights in a Hugging Face directory, shard by shard: no rank gathers anything,
// each reads and writes its own ranges.
#ifndef ZR_FORMATS_WEIGHT_FILES_H
#define ZR_FORMATS_WEIGHT_FILES_H

#include "formats/quantised_files.h"
#include "formats/weight_view.h"

// Collective. Writes `path` durably, in fp32: rank 0 creates the temporary file at its full size,
// every rank writes its ranges and fsyncs, then rank 0 renames. A failure anywhere is returned by
// every rank, and leaves either no file or the earlier one (except that, if the directory's own
// fsync fails, the new file is there, whole).
zero_status zr_weights_save(zero_comm *comm, const char *path, const char *prefix,
                            const zr_weight_view *view, zero_error *error);

typedef struct zr_weights_options {
    uint64_t seed; // Selects the places at which ranks compare the files that they see.
    // Tensors that the model has no place for are left out with a warning; if false, they are
    // refused.
    bool ignored;
    // Names of the head and of the table of tokens. If the model has no head of its own, because
    // the table is its head, a head in the files that repeats the table is left out silently, and
    // any other is refused. If tied_head is NULL, a head is a tensor like others.
    const char *tied_head, *table;
    // A tensor that keeps what a new model has, if the files do not have it; NULL: none.
    const char *drawn;
    // Of the tensors of bytes in the view (quantised_files.h), or plain if it has none.
    zr_weight_format format;
    const char *prefix;        // all names in the files begin with it; NULL: with nothing
    bool may_untie;            // config.json may say that the model has a head of its own
    const zero_logger *logger; // for the warning; NULL to drop it
} zr_weights_options;
// Collective. Fills the ranges, one after another. Missing tensors, shapes that differ and unused
// tensors are ZERO_ERR_DATA with name, found and expected.
zero_status zr_weights_load(zero_comm *comm, const char *directory, const zr_weight_view *view,
                            const zr_weights_options *how, zero_error *error);
// Not collective. *out is a hash of the sizes of the files that zr_weights_load would read, and of
// 4,096 of their blocks, by which a model is recognised wherever it lies.
zero_status zr_weights_hash(zero_comm *comm, const char *directory, uint64_t *out,
                            zero_error *error);
// Collective, with the same files on all ranks; each rank compares a part. *differs is true if the
// files have a head that the model does not have, and its values differ from the table's.
zero_status zr_weights_compare_head(zero_comm *comm, const zr_st_set *set,
                                    const zr_weight_view *view, const zr_weights_options *how,
                                    bool *differs, zero_error *error);
// Not collective. Names up to ten tensors that are neither the model's nor buffers of old exports
// (zr_tensor_is_buffer). head_differs: as above.
// codes: of the files, if the view has tensors of bytes; otherwise NULL.
zero_status zr_weights_check_unused(const zr_st_set *set, const zr_weight_view *view,
                                    const zr_weights_options *how, const zr_codes *codes,
                                    bool head_differs, zero_error *error);

#endif
