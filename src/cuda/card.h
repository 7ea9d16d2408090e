// A card that is open: its context, kernels and memory. One a process and number, however many
// queues and ranks use it; it is closed when the last of them and all memory are gone.
#ifndef ZR_CUDA_CARD_H
#define ZR_CUDA_CARD_H

#include "cuda/kernels/kernels.h"
#include "cuda/libraries.h"
#include "memory/device.h"

#define ZR_CUDA_KERNEL_ENUM(file, kernel) ZR_KERNEL_##kernel,
typedef enum zr_cuda_kernel {
    ZR_CUDA_KERNELS(ZR_CUDA_KERNEL_ENUM) ZR_CUDA_KERNEL_COUNT
} zr_cuda_kernel;

typedef struct zr_cuda_card {
    zr_device device; // impl: the card
    int number, users;
    // It has not ended what it was given in the time that it had. Then nothing of it is given back,
    // because the driver would wait, and it is not opened again.
    _Atomic bool stuck;
    const zr_cuda_driver *cu;
    const zr_blas *blas;
    zr_cuda_context context;
    zr_cuda_device id;
    int capability, multiprocessors;
    char name[128];
    zr_blas_handle blas_handle;        // for the products of all queues
    struct zr_cuda_products *products; // the shapes that were multiplied so far (products.c)
    zr_cuda_module modules[16];        // by file
    zr_cuda_function functions[ZR_CUDA_KERNEL_COUNT];
    char warning[ZERO_MESSAGE_BYTES]; // of the cache of images, or empty
} zr_cuda_card;

// Opens a card, or counts one user more. The message names what is missing, or the call that
// failed. Any thread.
zero_status zr_cuda_card_open(int number, zr_cuda_card **out, zero_error *error);
void zr_cuda_card_use(zr_cuda_card *card); // one user more of an open card
void zr_cuda_card_close(zr_cuda_card *card);

// Makes the card the calling thread's: each function that calls the driver begins with it.
zero_status zr_cuda_card_enter(zr_cuda_card *card, zero_error *error);

// Fails with the name of a call, the driver's text, and what the card has unused.
zero_status zr_cuda_fail(zr_cuda_card *card, const char *call, zr_cuda_result result,
                         zero_error *error);

// products.c: makes and frees what a card keeps of the shapes that it has multiplied.
zero_status zr_cuda_products_begin(zr_cuda_card *card, zero_error *error);
void zr_cuda_products_end(zr_cuda_card *card);

// Calls a function of the driver, and returns from the caller if it fails.
#define ZR_CUDA_TRY(card, error, name, ...)                                                        \
    do {                                                                                           \
        zr_cuda_result result_ = (card)->cu->name(__VA_ARGS__);                                    \
        if (result_)                                                                               \
            return zr_cuda_fail(card, #name, result_, error);                                      \
    } while (0)

#endif
