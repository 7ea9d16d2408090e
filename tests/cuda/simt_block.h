// A block of threads on one CPU: each thread is a fiber, which runs until it has to wait for
// others, at a barrier of the block or at a collective of its warp. Blocks run one after another.
//
// The order of threads between two waits is chosen: what a kernel with a missing barrier computes
// depends on it. Where no thread can go on, the launch ends with a message that says who waits
// where. A barrier has to be reached by all threads of the block, at one place of the text; a
// collective by all threads of the warp, at one place.
#ifndef ZR_SIMT_BLOCK_H
#define ZR_SIMT_BLOCK_H

#include "simt_fiber.h"

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    size_t count() const { return (size_t)x * y * z; }
};

namespace simt {

enum class order { forward, backward, drawn };
enum class state { ready, at_barrier, at_collective, ended };
constexpr unsigned warp_size = 32, most_words = 8;

struct site { // a place of the text
    const char *what;
    int line;
    bool operator==(const site &other) const
    {
        return line == other.line && (what == other.what || !strcmp(what, other.what));
    }
    std::string text() const { return std::string(what) + " of line " + std::to_string(line); }
};

struct copy { // of 16 bytes to shared memory, which goes on; `from` null: zeros
    void *to;
    const void *from;
    unsigned group;
};

struct thread {
    context self;
    dim3 index;
    unsigned lane, warp;
    state now;
    site waits;
    std::vector<copy> copies; // those that were not waited for
    unsigned groups;          // of copies, committed
};

using lane_words = uint32_t[most_words];

struct warp {
    lane_words words[2][warp_size]; // two: lanes may still read while the next begins
    unsigned phase, arrived, threads;
    site waits; // of the first that has arrived
};

struct block {
    std::function<void()> body;
    std::vector<thread> threads;
    std::vector<warp> warps;
    dim3 index, grid, shape;
    context host;
    unsigned current, at_barrier;
    site barrier;   // of the first that waits there
    uint32_t drawn; // the state of the drawn order
    std::string failure;

    thread &self() { return threads[current]; }
    void suspend() { context_switch(self().self, host, self().now == state::ended); }
};

inline block *running; // by the one launch that runs
inline std::mutex one_launch;

inline std::string describe_sites(const char *why, site here, site there)
{
    return std::string(why) + ": " + here.text() + (here == there ? "" : ", " + there.text());
}

// Ends the launch. The thread stays suspended for ever, so that nothing of it may own memory.
inline void fail(const char *why, site here, site there)
{
    if (running->failure.empty())
        running->failure = describe_sites(why, here, there);
    running->suspend();
}

inline void enter()
{
    context_arrive(running->self().self, &running->host);
    running->body();
    running->self().now = state::ended;
    running->suspend();
    abort();
}

inline void wait_at(state how, site where)
{
    thread &self = running->self();
    self.now = how;
    self.waits = where;
    running->suspend();
}

inline void sync_block(site where)
{
    block &b = *running;
    if (b.at_barrier == 0)
        b.barrier = where;
    else if (!(b.barrier == where))
        fail("threads are at different barriers", where, b.barrier);
    if (++b.at_barrier < b.threads.size())
        return wait_at(state::at_barrier, where);
    b.at_barrier = 0;
    for (thread &other : b.threads)
        if (other.now == state::at_barrier)
            other.now = state::ready;
}

// Every lane of the warp leaves `count` words, then all get all: [lane][word].
inline const lane_words *exchange(uint32_t mask, const uint32_t *mine, unsigned count, site where)
{
    block &b = *running;
    thread &self = b.self();
    warp &of = b.warps[self.warp];
    thread *first = &b.threads[self.warp * warp_size];
    const unsigned phase = of.phase % 2;
    if (mask != (of.threads == warp_size ? ~0u : (1u << of.threads) - 1))
        fail("the mask names other lanes than the warp has", where, where);
    if (of.arrived == 0)
        of.waits = where;
    else if (!(of.waits == where))
        fail("lanes are at different collectives", where, of.waits);
    memcpy(of.words[phase][self.lane], mine, count * sizeof *mine);
    if (++of.arrived < of.threads) {
        wait_at(state::at_collective, where);
    } else {
        of.arrived = 0;
        of.phase++;
        for (unsigned i = 0; i < of.threads; i++)
            if (first[i].now == state::at_collective)
                first[i].now = state::ready;
    }
    return of.words[phase];
}

} // namespace simt

#endif
