// Compares a backward in two parts with one in one call, over a whole model.
#ifndef TEST_LAYERS_SPLIT_BACKWARD_H
#define TEST_LAYERS_SPLIT_BACKWARD_H

#include "layers_harness.h"

// Is called before each call of a unit's backward, with the parts of it (ZR_BACKWARD_...) that the
// call computes, and after it; each may be NULL.
typedef struct split_watch {
    void (*begin)(void *user, int unit, unsigned parts);
    void (*end)(void *user, int unit, unsigned parts);
    void *user;
} split_watch;

// Call it after a training forward. Asserts that the two parts of each unit that splits its
// backward have the bits of one backward, gradients of boundaries and of tensors, which are set and
// then added to. The weight parts come after the input parts of all units; workspace, scratch and
// gradients of outputs are overwritten in between. Asserts, too, that neither part changes what the
// unit has saved or read, that the input part asks for no gradient, and that the weight part reads
// what the sizes announce. Afterwards no gradient is written.
void split_check(harness *net, const split_watch *watch);
bool split_is_offered(const harness *net, int unit); // the unit's backward is in two parts

#endif
