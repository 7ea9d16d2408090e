// What ranks tell each other by words, for the lists of the far device. The linker puts these
// functions around those of comm/.
#include "comm/local_control.h"
#include "far.h"

#include <sys/mman.h>

void __real_zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value);
void __wrap_zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value);
zero_status __real_zr_local_await(zero_comm *comm, const zr_wait *wait, zero_error *error);
zero_status __wrap_zr_local_await(zero_comm *comm, const zr_wait *wait, zero_error *error);
int __real_munmap(void *first, size_t bytes);
int __wrap_munmap(void *first, size_t bytes);

void __wrap_zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value)
{
    far_note_post((const void *)word, value);
    __real_zr_local_post(local, word, value);
}

zero_status __wrap_zr_local_await(zero_comm *comm, const zr_wait *wait, zero_error *error)
{
    int place;
    if (!far_makes_wait(&place))
        return ZERO_OK;
    zero_status status = __real_zr_local_await(comm, wait, error);
    if (status == ZERO_OK)
        far_note_await((const void *)wait->word, wait->target << wait->shift, place);
    return status;
}

int __wrap_munmap(void *first, size_t bytes)
{
    far_note_unmap(first, bytes);
    return __real_munmap(first, bytes);
}
