// Quantiles of a few numbers: the one rule by which all of the library takes them. Pure.
#ifndef ZR_BASE_QUANTILE_H
#define ZR_BASE_QUANTILE_H

// Sorts numbers, none of which is NaN, from the least.
void zr_sort_numbers(double *numbers, int count);
// Returns the quantile of sorted numbers, at least one, that `part` of them (0 to 1) are below: of
// two neighbors the one between, in proportion (Hyndman and Fan's seventh rule, as NumPy has it).
double zr_quantile(const double *sorted, int count, double part);

// Sorts numbers, at least one, and returns their median.
double zr_median(double *numbers, int count);
// Sorts likewise, and returns the mean of those that are at most twice the median: of times, a sum
// of such means is what many of them take together, and what interrupts one of them is left out.
double zr_usual_mean(double *numbers, int count);

#endif
