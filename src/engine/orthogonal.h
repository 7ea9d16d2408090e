// Muon's iteration on one matrix u: Newton and Schulz's, with coefficients that take its singular
// values to about 1 in few steps (Jordan et al., Muon, 2024; torch.optim.Muon). X is u, or its
// transpose if it is tall, so that X (n, m) has n <= m; no matrix is transposed in memory.
//
//   standard, in bf16              gram, in fp16, where n < m: torch's iteration, on R alone
//   X = u / max(|u|, eps)          X = u / (|u| + eps)
//   steps times:                   R = X X^T, Q = I; steps times:
//     A = X X^T                      Z = b R + c R R
//     B = b A + c A A                Q = a Q + Z Q
//     X = a X + B X                  R = (a I + Z) R (a I + Z)
//                                  X = Q X; this also happens before step 2, which begins again
//
// "gram" is DeepSpeed's method of this name (deepspeed/runtime/zero/muon, ns_method); a square
// matrix takes the standard steps in fp16. Every line's result is rounded once; sums are fp32. In
// standard |u| is rounded to bf16 as torch rounds it. Unlike DeepSpeed, which makes u fp16 before
// it is divided, gram divides first, so that a small or large u keeps its digits.
#ifndef ZR_ENGINE_ORTHOGONAL_H
#define ZR_ENGINE_ORTHOGONAL_H

#include "compute/compute.h"
#include "plan/muon.h"

// Returns the bytes of the queue's scratch that its products need.
size_t zr_orthogonal_scratch(zr_queue *queue, const zr_orthogonal *of);
// Replaces u by the result, bf16 (rows, cols) both. matrix and workspace are 64-byte aligned. It
// allocates nothing; failures are the queue's (zr_queue_check). Bits depend only on the arguments
// and the instruction set where products are our own, and also on the number of threads where
// oneDNN computes them (path amx). A u with a value that is not finite gives no finite values;
// zeros give zeros.
void zr_orthogonal_run(zr_queue *queue, const zr_orthogonal *of, uint16_t *matrix, void *workspace);

#endif
