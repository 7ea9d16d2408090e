// Elementwise work: kernels of elements.cu, copies and fills.
#include "cuda/launch.h"

ZR_KERNEL(zr_cuda_gelu_forward, gelu_forward, elements) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_gelu_backward, gelu_backward, elements) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_gelu_erf_forward, gelu_erf_forward, elements)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_gelu_erf_backward, gelu_erf_backward, elements)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_silu_gate_forward, silu_gate_forward, elements)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_silu_gate_backward, silu_gate_backward, elements)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_add, add, sum)
{
    ZR_LAUNCH(queue, add, 256, zr_cuda_blocks(queue, (shape->n + 7) / 8, 256), 1, .x = x,
              .branch = branch, .out = out, .n = shape->n, .stream_type = (int)shape->stream,
              .branch_type = (int)shape->dtype);
}

ZR_KERNEL(zr_cuda_convert, convert, conversion) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_scale, scale, scaling) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_dropout, dropout, dropout) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_add_bias, add_bias, matrix) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_embedding_forward, embedding_forward, embedding)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_add_positions, add_positions, embedding) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_embedding_backward, embedding_backward, embedding)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_copy, copy, bytes) { zr_cuda_copy_bytes(queue, from, to, shape->bytes); }

ZR_KERNEL(zr_cuda_copy_rows, copy_rows, strided) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_fill, fill, bytes) { zr_cuda_fill_bytes(queue, to, shape->value, shape->bytes); }
