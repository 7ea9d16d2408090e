// The labels of a model that classifies texts: its head is a matrix of a row for each label, in
// place of the table of tokens. In files they are transformers' "id2label".
#ifndef ZR_BASE_LABELS_H
#define ZR_BASE_LABELS_H

#include "base/errors.h"
#include "base/json_writer.h"
#include <stdbool.h>
#include <stdint.h>

#define ZR_SCORE_WEIGHT "score.weight" // the head's matrix, in files of any architecture
enum { ZR_USUAL_LABELS = 2 };          // of a model whose file says no number
enum { ZR_MOST_LABELS = 1024, ZR_LABELS_TEXT = 16384, ZR_LABEL_BYTES = 256 };

typedef struct zr_labels {
    int count;  // 0: the model continues texts
    bool drawn; // the head's weights are those of a new model, because the files have none
    int bytes;  // of text
    char text[ZR_LABELS_TEXT]; // names, each with its 0, in the order of their numbers
} zr_labels;

// Appends a name. ZERO_ERR_UNSUPPORTED for one label too many, with `name` as where it is from;
// ZERO_ERR_DATA for a name that is empty or there already.
zero_status zr_labels_add(zr_labels *labels, const char *label, const char *name,
                          zero_error *error);
// Returns the label's number; -1 if there is none of this name. A whole number is also a label's
// own number, unless names are whole numbers, too: "2" is then no label of "1", "3" and "10".
int zr_labels_find(const zr_labels *labels, const char *label, bool whole_number);
const char *zr_labels_name(const zr_labels *labels, int number);
// Puts labels into ascending order if all are whole numbers, else into that of their bytes.
zero_status zr_labels_sort(zr_labels *labels, zero_error *error);
// Sets "LABEL_0", "LABEL_1", ..., as transformers names labels that nobody has named.
zero_status zr_labels_number(zr_labels *labels, int count, zero_error *error);
// Writes "a", "b" and 7 more, for messages: whole names, as many as there is room for.
void zr_labels_list(const zr_labels *labels, char *out, size_t size);
// Writes the keys of config.json.
void zr_labels_write(const zr_labels *labels, zr_json_writer *w);

#endif
