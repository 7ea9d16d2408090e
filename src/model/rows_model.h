// Language models that a program describes by rows (zero/rows.h).
#ifndef ZR_MODEL_ROWS_MODEL_H
#define ZR_MODEL_ROWS_MODEL_H

#include "model/lm_table.h"

int zr_row_inputs(const zero_block_row *row); // the number of rows that it reads

// Returns ZERO_ERR_USAGE, with the half and the row, for tables that no block can compute. title:
// of the model, for the message.
zero_status zr_rows_check(const zero_block_table *block, const zero_tensor_row *tensors, int count,
                          bool rms, bool outputs_first, const char *title, zero_error *error);

// Makes the configuration of a program's model, and checks it. config has every field (see
// zr_struct_take). Free it, also where this fails, with zr_rows_free, after the models made from
// it.
zero_status zr_rows_make(const zero_rows_config *config, zr_lm_config *out, zero_error *error);
void zr_rows_free(const zr_lm_config *config);

#endif
