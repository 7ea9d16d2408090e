// The supervisor: waits for its children, passes on what the caller asks, tells the others when one
// fails, and ends those that do not end by themselves.
// Invariant: it returns only after every child has been reaped.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/text.h"
#include "launch/run_ranks.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// After a failure, ranks learn of it from each other and end with a message of their own. Those
// that have not ended after ASK_AFTER get SIGTERM, after KILL_AFTER SIGKILL.
static const double ASK_AFTER = 0.7, KILL_AFTER = 1.4, LOOK_EVERY = 0.05; // seconds
// If the caller asks them to end, ranks have GRACE seconds. Once the first has ended, the others
// have LINGER seconds.
static const double GRACE = 30, LINGER = 10;

typedef struct watch {
    zr_local_host *host;
    zr_child *children;
    struct pollfd *polls;
    const zero_run_options *options;
    int alive, first;        // first: the rank whose failure is reported, -1: none
    int signal;              // by which the caller wants the ranks to end, 0: none
    double failed_at;        // when the end after a failure began
    double kill_at;          // when a requested end becomes SIGKILL
    int sent;                // the strongest signal that was sent to all
    int noted;               // how much of *options->notes was passed on
    int dead;                // ranks that ended by a signal not sent from here
    zr_cgroup_memory memory; // before the ranks began
} watch;

static bool ended_badly(int wait_status)
{
    return !WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0;
}

static void wait_a_little(watch *w)
{
    int count = 0;
    for (int r = 0; r < w->host->ranks; r++)
        if (w->children[r].pid && w->children[r].pidfd >= 0)
            w->polls[count++] = (struct pollfd){.fd = w->children[r].pidfd, .events = POLLIN};
    if (count == w->alive)
        poll(w->polls, (nfds_t)count, (int)(LOOK_EVERY * 1e3));
    else
        zr_sleep_seconds(LOOK_EVERY / 5);
}

static void reap_ended_ranks(watch *w)
{
    for (int r = 0; r < w->host->ranks; r++) {
        zr_child *child = &w->children[r];
        int status;
        if (!child->pid || waitpid(child->pid, &status, WNOHANG) != child->pid)
            continue;
        if (child->pidfd >= 0)
            close(child->pidfd);
        *child = (zr_child){.pidfd = -1, .wait_status = status};
        w->alive--;
        zr_local_host_note_death(w->host, r, status);
        if (w->signal)
            w->kill_at = fmin(w->kill_at, zr_clock_seconds() + LINGER);
        if (!ended_badly(status) || (w->sent && !w->signal))
            continue;
        w->dead += WIFSIGNALED(status);
        if (w->first < 0)
            w->failed_at = zr_clock_seconds();
        if (w->first < 0 ||
            (WIFSIGNALED(status) && !WIFSIGNALED(w->children[w->first].wait_status)))
            w->first = r;
    }
}

static void send_signal_and_continue(const watch *w, int number)
{
    for (int r = 0; r < w->host->ranks; r++) {
        if (w->children[r].pid) {
            kill(w->children[r].pid, number);
            kill(w->children[r].pid, SIGCONT); // a stopped rank does not react otherwise
        }
    }
}

static void signal_all_ranks(watch *w, int number)
{
    send_signal_and_continue(w, number);
    w->sent = number;
}

// Does what the caller asks. SIGINT may have reached the ranks from the terminal already, so they
// are sent SIGTERM in its place.
static void pass_on_requests(watch *w)
{
    const zero_run_options *options = w->options;
    if (options->notes && *options->notes != w->noted) {
        w->noted = *options->notes;
        send_signal_and_continue(w, SIGUSR1);
    }
    if (!options->stop || !*options->stop || w->signal)
        return;
    w->signal = *options->stop;
    w->kill_at =
        options->grace_seconds < 0
            ? INFINITY
            : zr_clock_seconds() + (options->grace_seconds > 0 ? options->grace_seconds : GRACE);
    signal_all_ranks(w, w->signal == SIGINT ? SIGTERM : w->signal);
}

static void end_the_rest(watch *w)
{
    double now = zr_clock_seconds();
    bool late = w->signal ? now > w->kill_at : w->first >= 0 && now - w->failed_at > KILL_AFTER;
    if (late && w->sent != SIGKILL)
        signal_all_ranks(w, SIGKILL);
    else if (w->first >= 0 && !w->sent && now - w->failed_at > ASK_AFTER)
        signal_all_ranks(w, SIGTERM);
}

// Returns the message of a rank that gave up; otherwise the first failure as the communicator
// noticed it.
static const char *message_without_rank(const zr_local_failure *failure)
{
    char prefix[96];
    int length = snprintf(prefix, sizeof prefix, "rank %d gave up at step %lld: ", failure->rank,
                          (long long)failure->step);
    return strncmp(failure->message, prefix, (size_t)length) == 0 ? failure->message + length
                                                                  : failure->message;
}

static int exit_code_of(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Whether a rank died of the signal that it was sent because the caller requested the end.
static bool died_as_asked(const watch *w)
{
    for (int r = 0; r < w->host->ranks; r++) {
        int status = w->children[r].wait_status,
            number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        if (number && w->signal && (number == w->sent || number == w->signal || number == SIGTERM))
            return true;
    }
    return false;
}

// Describes the memory of the control group, because the kernel kills a process of a group at its
// limit and tells it only in the group's counters.
static void describe_memory(const watch *w, const zr_local_failure *failure, char *out, size_t size)
{
    const zr_cgroup_memory now = zr_cgroup_memory_look("");
    char limit[ZR_BYTES_TEXT], need[ZR_BYTES_TEXT], plan[ZR_BYTES_TEXT + 64] = "";
    int64_t bytes = 0;
    *out = 0;
    if (failure->signal != SIGKILL || now.kills <= w->memory.kills || now.limit == INT64_MAX)
        return;
    for (int r = 0; r < w->host->ranks; r++)
        bytes += zr_local_host_status(w->host, r).need;
    zr_bytes_text((double)now.limit, limit);
    zr_bytes_text((double)bytes, need);
    if (bytes)
        snprintf(plan, sizeof plan, ", the plan of its %d rank%s needs %s", w->host->ranks,
                 w->host->ranks == 1 ? "" : "s", need);
    snprintf(out, size,
             ": the kernel ended it for memory: the limit of its control group is %s for all "
             "processes together%s; a smaller model or micro-batch, offload to NVMe, "
             "or a higher limit helps, more ranks in the same group do not",
             limit, plan);
}

// Reports the first failure that anyone noticed. If the rank has an exit code of its own, that is
// passed on.
static zero_status report_failure(const watch *w, int *exit_code, zero_error *error)
{
    zr_local_failure failure;
    if (died_as_asked(w)) {
        *exit_code = 128 + w->signal;
        return zr_fail(error, ZERO_ERR_CANCELLED, "ended by signal %d (%s)", w->signal,
                       strsignal(w->signal));
    }
    if (w->first < 0)
        return ZERO_OK;
    if (!zr_local_host_failure(w->host, &failure)) {
        *exit_code = exit_code_of(w->children[w->first].wait_status);
        return zr_fail(error, ZERO_ERR_PEER, "rank %d ended with exit code %d", w->first,
                       *exit_code);
    }
    int status = w->children[failure.rank].wait_status;
    bool own = ended_badly(status) &&
               !(WIFSIGNALED(status) && w->sent == WTERMSIG(status) && failure.signal == 0);
    *exit_code = failure.signal ? 128 + failure.signal
                 : own          ? exit_code_of(status)
                                : zero_status_exit_code(failure.status);
    char memory[512];
    describe_memory(w, &failure, memory, sizeof memory);
    return zr_fail(error, failure.status, "%s%s", message_without_rank(&failure), memory);
}

// Reads what all ranks have reported, because one that died early has reported nothing.
static int largest_rank_multiple(const zr_local_host *host)
{
    int multiple = 0;
    for (int r = 0; r < host->ranks; r++)
        multiple = ZR_MAX(multiple, zr_local_host_status(host, r).multiple);
    return multiple;
}

zero_status zr_run_watch(zr_local_host *host, zr_child *children, const zero_run_options *options,
                         int *exit_code, zr_run_end *end, zero_error *error)
{
    watch w = {.host = host,
               .children = children,
               .options = options,
               .first = -1,
               .memory = zr_cgroup_memory_look("")};
    w.polls = zr_alloc((size_t)host->ranks * sizeof *w.polls, error);
    zero_status no_memory = w.polls ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int r = 0; r < host->ranks; r++)
        w.alive += children[r].pid != 0;
    if (no_memory)
        signal_all_ranks(&w, SIGKILL);
    while (w.alive > 0) {
        if (no_memory)
            zr_sleep_seconds(LOOK_EVERY);
        else
            wait_a_little(&w);
        reap_ended_ranks(&w);
        pass_on_requests(&w);
        end_the_rest(&w);
    }
    zr_free(w.polls);
    *end = (zr_run_end){.dead = w.dead, .multiple = largest_rank_multiple(host)};
    return no_memory ? no_memory : report_failure(&w, exit_code, error);
}
