// The numbers that monitors show, under DeepSpeed's names: tag "Train/Samples/lr", file
// "Train_Samples_lr.csv", column "lr". Their x axis is the number of samples that all ranks have
// trained on so far.
#ifndef ZR_MONITOR_SCALARS_H
#define ZR_MONITOR_SCALARS_H

// Numbers of every step, of evaluations, and of the step's timers (milliseconds, summed over its
// micro-batches).
#define ZR_SCALARS(X)                                                                              \
    X(train_loss)                                                                                  \
    X(lr)                                                                                          \
    X(loss_scale)                                                                                  \
    X(eval_loss)                                                                                   \
    X(elapsed_time_ms_forward)                                                                     \
    X(elapsed_time_ms_backward)                                                                    \
    X(elapsed_time_ms_backward_inner)                                                              \
    X(elapsed_time_ms_backward_allreduce)                                                          \
    X(elapsed_time_ms_step)

typedef enum zr_scalar_name {
#define ZR_SCALAR_ENUM(name) ZR_SCALAR_##name,
    ZR_SCALARS(ZR_SCALAR_ENUM)
#undef ZR_SCALAR_ENUM
        ZR_SCALAR_COUNT
} zr_scalar_name;

typedef struct zr_scalar {
    zr_scalar_name name;
    double value;
} zr_scalar;

#endif
