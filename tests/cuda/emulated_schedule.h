// The order in which the emulated driver does what streams were given. A stream's work is a row of
// pieces; the schedule of the environment (emulated.h) says which stream goes on, and when.
#ifndef ZR_EMULATED_SCHEDULE_H
#define ZR_EMULATED_SCHEDULE_H

#include "emulated.h"

#include <chrono>
#include <deque>

namespace emulated {

// A place in a stream: passed once the stream has done that many pieces.
struct mark {
    std::shared_ptr<track> of;
    uint64_t position;
    bool asked = false; // whether a query has been told that it is not passed
    std::chrono::steady_clock::time_point at;
};

struct piece {
    std::shared_ptr<const emulated_operation> work; // or nothing
    std::shared_ptr<mark> after;                    // is passed before, or nothing
    std::shared_ptr<mark> reached;                  // gets the time, or nothing
};

struct track { // of a stream
    int device;
    uint64_t given = 0, done = 0; // pieces
    std::deque<piece> waiting;    // given - done of them
};

// What is being done, for messages and for what is reached.
struct working {
    int device = -1; // -1: nothing
    const char *kernel = nullptr;
};
working &now_working();

void read_schedule();
std::shared_ptr<track> new_track(int device);
// Does what is left of it; false: that waits for what nobody does, and never comes.
bool end_track(const std::shared_ptr<track> &of);
void give(const std::shared_ptr<track> &of, piece next);
bool is_passed(const mark &place);
bool ask(mark &place); // a query, by the schedule: whether it is passed
zr_cuda_result wait_for(call &here, const mark &place);

} // namespace emulated

#endif
