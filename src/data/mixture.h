// Which of several sources a sample comes from: a pure function of its number, without memory.
//
// Numbers are divided in two, again and again: of the first s samples source 0 has floor(s w0 / W), of those that are left source 1 has
// floor(s' w1 / (W - w0)), ... Each count grows by 0 or 1 from one sample to the next, so after any number of samples each source has had
// its share to within one for each source before it, evenly spread, and sample s is the source's sample of that count.
#ifndef ZR_DATA_MIXTURE_H
#define ZR_DATA_MIXTURE_H

#include "base/status.h"

// weights: (count), all above 0. *of_source: which sample of that source it is.
int zr_mixture_source(const double *weights, int count, int64_t sample, int64_t *of_source);

#endif
