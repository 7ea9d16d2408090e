// Optimizer updates, exact sums, sums over ranks: kernels of states.cu.
#include "cuda/launch.h"

ZR_KERNEL(zr_cuda_update, update, update) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_lamb_direction, lamb_direction, update) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_subtract_scaled, subtract_scaled, update) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_average, average, update) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_square_sums, square_sums, squares) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_square_sums_exact, square_sums_exact, square_parts)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_tree_sum, tree_sum, tree) { zr_cuda_queue_refuse(queue, NULL); }
