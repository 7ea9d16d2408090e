// Attention and rotation: kernels of attention.cu.
#include "cuda/launch.h"

size_t zr_cuda_attention_scratch(const zr_attention *s, zr_op_kind kind) { return 0; }

ZR_KERNEL(zr_cuda_attention_forward, attention_forward, attention)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_attention_backward, attention_backward, attention)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_attention_decode, attention_decode, attention)
{
    zr_cuda_queue_refuse(queue, NULL);
}

ZR_KERNEL(zr_cuda_rotary_table, rotary_table, rotary) { zr_cuda_queue_refuse(queue, NULL); }

ZR_KERNEL(zr_cuda_rotate, rotate, rotary) { zr_cuda_queue_refuse(queue, NULL); }
