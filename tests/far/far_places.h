// The places in the program that make a wait: an AFTER, a FINISH, an AWAIT of a word. A place is a
// call in a function: "zr_norms_bring_step", and where a function waits more than once, also
// "zr_vector_broadcast 2" for the second of its calls. Functions that only hand on (far_places.c)
// do not count: those that call them do.
#ifndef TESTS_FAR_PLACES_H
#define TESTS_FAR_PLACES_H

// Returns the number of the place that waits now (far_options.place), from 1 on. Places keep their
// numbers until the program ends.
int far_place_now(void);
int far_place_count(void);
// Final once all places of a function are known. Valid until the next call.
const char *far_place_name(int place);

#endif
