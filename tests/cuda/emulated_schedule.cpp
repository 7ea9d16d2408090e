// Does the pieces of streams, each in the call that the schedule chooses for it, one at a time.
// A mark is older than what waits for it, so that streams never wait for each other in a circle.
#include "emulated_schedule.h"

#include <algorithm>
#include <unistd.h>

namespace emulated {

namespace {

enum class schedule { eager, lazy, random };

struct state {
    schedule how = schedule::eager;
    std::string text; // that says so
    uint64_t drawn = 0;
    std::vector<std::shared_ptr<track>> tracks;
    working now;
};

state &self()
{
    static state &only = *new state;
    return only;
}

uint64_t draw(uint64_t below)
{
    uint64_t &x = self().drawn; // splitmix64
    uint64_t z = x += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

bool has_to_wait(const track &of)
{
    const piece &next = of.waiting.front();
    return next.after && !is_passed(*next.after);
}

// Does the next piece, which waits for no mark. False: it waits for a word. After a failure pieces
// pass without being done.
bool do_next(track &of)
{
    piece &next = of.waiting.front();
    working before = self().now;
    self().now = {of.device, nullptr};
    const bool is_done = !next.work || broken() || (*next.work)();
    self().now = before;
    if (!is_done)
        return false;
    if (next.reached)
        next.reached->at = std::chrono::steady_clock::now();
    of.waiting.pop_front();
    of.done++;
    return true;
}

// Does all that is needed before a mark. False: something waits for a word.
bool run_until(const mark &place)
{
    while (!is_passed(place)) {
        track *next = place.of.get();
        while (has_to_wait(*next))
            next = next->waiting.front().after->of.get();
        if (!do_next(*next))
            return false;
    }
    return true;
}

// Goes on in a stream as far as it can, with what others have done.
bool advance(track &of)
{
    const uint64_t before = of.done;
    while (!of.waiting.empty() && !has_to_wait(of) && do_next(of))
        ;
    return of.done > before;
}

void advance_all()
{
    for (bool went_on = true; went_on;) {
        went_on = false;
        for (const auto &of : self().tracks)
            went_on |= advance(*of);
    }
}

void advance_some(uint64_t most)
{
    for (uint64_t steps = draw(most + 1); steps > 0; steps--) {
        std::vector<track *> ready;
        for (const auto &of : self().tracks)
            if (!of->waiting.empty() && !has_to_wait(*of))
                ready.push_back(of.get());
        if (ready.empty())
            return;
        do_next(*ready[draw(ready.size())]);
    }
}

} // namespace

working &now_working() { return self().now; }

void read_schedule()
{
    state &s = self();
    const char *text = getenv("EMULATED_SCHEDULE");
    s.text = text ? text : "eager";
    s.how = schedule::eager;
    if (s.text == "lazy")
        s.how = schedule::lazy;
    else if (s.text.rfind("random:", 0) == 0)
        s.how = schedule::random;
    else if (s.text != "eager")
        misuse("there is no EMULATED_SCHEDULE=" + s.text);
    s.drawn = s.how == schedule::random ? strtoull(s.text.c_str() + 7, nullptr, 10) : 0;
}

std::shared_ptr<track> new_track(int device)
{
    auto of = std::make_shared<track>();
    of->device = device;
    self().tracks.push_back(of);
    return of;
}

bool end_track(const std::shared_ptr<track> &of)
{
    auto &all = self().tracks;
    const bool is_done = run_until({of, of->given});
    all.erase(std::find(all.begin(), all.end(), of));
    of->waiting.clear();
    of->done = of->given; // what waited for it goes on
    return is_done;
}

void give(const std::shared_ptr<track> &of, piece next)
{
    of->waiting.push_back(std::move(next));
    of->given++;
    if (self().how == schedule::eager)
        advance(*of);
    else if (self().how == schedule::random)
        advance_some(3);
}

bool is_passed(const mark &place) { return place.of->done >= place.position; }

bool ask(mark &place)
{
    if (self().how == schedule::eager)
        advance_all();
    else if (self().how == schedule::random)
        advance_some(7);
    else if (place.asked)
        run_until(place);
    place.asked = true;
    return is_passed(place);
}

zr_cuda_result wait_for(call &here, const mark &place)
{
    const auto began = std::chrono::steady_clock::now();
    const std::chrono::seconds longest(setting("EMULATED_LONGEST", 10));
    for (;;) {
        if (self().how == schedule::eager)
            advance_all();
        const bool is_done = run_until(place);
        if (broken())
            return broken();
        if (is_done)
            return ZR_CUDA_SUCCESS;
        if (!is_stuck() && std::chrono::steady_clock::now() - began > longest) {
            misuse(std::string(last_call()) + " waited for what never came");
            break_process(ZR_CUDA_ERROR_LAUNCH_TIMEOUT);
            return broken();
        }
        here.pause();
    }
}

} // namespace emulated
