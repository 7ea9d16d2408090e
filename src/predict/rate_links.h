// How long exchanges by messages take: between machines, over their network, and among ranks of
// this machine that do not map each other's memory. They are rates like others, in settings of
// their own: so many machines, of so many ranks each that exchange at once and share its network.
// `bytes` of a sample are what comes to a rank over the network (on one machine: from the others),
// `seconds` all that the operation takes: sums, and what goes through memory.
#ifndef ZR_PREDICT_RATE_LINKS_H
#define ZR_PREDICT_RATE_LINKS_H

#include "predict/rates.h"

// What fills them, for messages.
#define ZR_LINK_TEACHER "mpirun ... zero bench comm"

// Returns the setting of a link. machines 1: ranks of this machine. one_copy: of all-gathers into
// memory that the ranks of a machine share.
zr_rate_setting zr_link_setting(int machines, int together, bool one_copy);
// Returns the rates of a link, or those of the nearest one between machines if `setting` is;
// NULL: nothing is known. The book's rates stay where they are until something is added to it.
const zr_rates *zr_rate_book_link(const zr_rate_book *book, const zr_rate_setting *setting);
// Returns the seconds of an exchange in which so many bytes come to a rank: on the line between the
// samples next to it. Sets *unknown as zr_rates_seconds does. link NULL: a guess.
double zr_link_seconds(const zr_rates *link, zr_activity what, double bytes, double *unknown);
// Finds the most bytes a second that came to a rank, and the seconds of the smallest exchange;
// false: nothing is known.
bool zr_link_describe(const zr_rates *link, double *rate, double *latency);
bool zr_rate_book_knows_kernels(const zr_rate_book *book); // not links alone
bool zr_rate_book_knows_network(const zr_rate_book *book); // between machines

#endif
