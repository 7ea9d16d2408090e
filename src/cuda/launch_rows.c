// Norms, softmax, losses, sums of columns: kernels of rows.cu.
#include "cuda/launch.h"

size_t zr_cuda_norm_scratch(const zr_norm *s) { return 0; }

size_t zr_cuda_column_sum_scratch(const zr_matrix *s) { return 0; }

ZR_KERNEL(zr_cuda_norm_forward, norm_forward, norm) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_norm_backward, norm_backward, norm) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_loss, loss, loss) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_loss_parts, loss_parts, loss) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_loss_finish, loss_finish, loss) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_softmax, softmax, matrix) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_local_ids, local_ids, id_range) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_sum_rows, sum_rows, row_sum) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_column_sum, column_sum, matrix) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_weight_squares, weight_squares, weight_rows)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_adapted_squares, adapted_squares, magnitude)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_magnitude_factors, magnitude_factors, magnitude)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_scale_columns, scale_columns, column_scaling)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_column_products, column_products, matrix) { zr_cuda_queue_refuse(queue, NULL); }
