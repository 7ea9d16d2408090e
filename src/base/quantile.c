#include "base/quantile.h"

#include <stdlib.h>

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void zr_sort_numbers(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
}

double zr_quantile(const double *sorted, int count, double part)
{
    double place = part * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

double zr_median(double *numbers, int count)
{
    zr_sort_numbers(numbers, count);
    return zr_quantile(numbers, count, 0.5);
}

double zr_usual_mean(double *numbers, int count)
{
    double most = 2 * zr_median(numbers, count), sum = 0;
    int usual = 0;
    while (usual < count && numbers[usual] <= most)
        sum += numbers[usual++];
    return usual ? sum / usual : 0;
}
