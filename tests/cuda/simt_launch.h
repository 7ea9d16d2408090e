// Runs the blocks of a grid, each thread as a fiber, in a chosen order; says what was wrong.
#ifndef ZR_SIMT_LAUNCH_H
#define ZR_SIMT_LAUNCH_H

#include "simt_block.h"

#include <algorithm>
#include <map>
#include <utility>

namespace simt {

inline uint32_t draw(block &b) // 24 bits
{
    b.drawn = b.drawn * 1664525u + 1013904223u;
    return b.drawn >> 8;
}

// A permutation of the threads: as they are, backward, or drawn anew each round.
inline void order_threads(block &b, order how, std::vector<unsigned> &out)
{
    const unsigned count = b.threads.size();
    for (unsigned i = 0; i < count; i++)
        out[i] = how == order::backward ? count - 1 - i : i;
    for (unsigned i = count; how == order::drawn && i > 1; i--)
        std::swap(out[i - 1], out[draw(b) % i]);
}

inline std::string describe_stuck(const block &b)
{
    std::map<std::string, unsigned> counts;
    for (const thread &t : b.threads)
        counts[t.now == state::ended ? "have ended" : "wait at " + t.waits.text()]++;
    std::string text =
        "block (" + std::to_string(b.index.x) + "," + std::to_string(b.index.y) + ") cannot go on:";
    for (const auto &[what, count] : counts)
        text += " " + std::to_string(count) + " of its threads " + what + ";";
    text.back() = '.';
    return text;
}

inline void start_block(block &b, const stacks &memory)
{
    b.at_barrier = 0;
    for (unsigned i = 0; i < b.warps.size(); i++) {
        b.warps[i].phase = b.warps[i].arrived = 0;
        b.warps[i].threads = std::min<size_t>(warp_size, b.threads.size() - i * warp_size);
    }
    for (unsigned i = 0; i < b.threads.size(); i++) {
        thread &t = b.threads[i];
        t.lane = i % warp_size;
        t.warp = i / warp_size;
        t.now = state::ready;
        t.copies.clear();
        t.groups = 0;
        t.index = dim3(i % b.shape.x, i / b.shape.x % b.shape.y, i / (b.shape.x * b.shape.y));
        context_prepare(t.self, memory.at(i), enter);
    }
}

// Runs all threads of a block to their ends, or until the block has failed. Where the order is
// drawn, about half of the warps rest in each round, so that some are far ahead of others.
inline void run_block(block &b, order how)
{
    std::vector<unsigned> sequence(b.threads.size());
    for (bool went_on = true; went_on && b.failure.empty();) {
        went_on = false;
        order_threads(b, how, sequence);
        const uint32_t resting = how == order::drawn ? draw(b) >> 8 : 0;
        for (unsigned i : sequence) {
            if (b.threads[i].now != state::ready || !b.failure.empty())
                continue;
            went_on = true;
            if (resting >> b.threads[i].warp % 16 & 1)
                continue;
            b.current = i;
            context_switch(b.host, b.threads[i].self, false);
        }
    }
    for (const thread &t : b.threads)
        if (t.now != state::ended && b.failure.empty())
            b.failure = describe_stuck(b);
}

// Runs body() in every thread of the grid. Returns what was wrong, or nothing.
inline std::string launch(dim3 grid, dim3 shape, order how, std::function<void()> body)
{
    static stacks memory;
    std::lock_guard<std::mutex> alone(one_launch);
    block b = {};
    b.body = std::move(body);
    b.threads.resize(shape.count());
    b.warps.resize((shape.count() + warp_size - 1) / warp_size);
    b.grid = grid;
    b.shape = shape;
    b.drawn = 40503u;
    memory.grow(shape.count());
    running = &b;
    for (size_t i = 0; i < grid.count() && b.failure.empty(); i++) {
        b.index = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
        start_block(b, memory);
        run_block(b, how);
    }
    running = nullptr;
    for (thread &t : b.threads)
        context_forget(t.self);
    return b.failure;
}

} // namespace simt

#endif
