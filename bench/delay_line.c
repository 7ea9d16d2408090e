// A wire with a delay between two network namespaces, where the kernel has no netem: started by
// bench/network.
//
//   delay_line PROCESS_A PROCESS_B DEVICE SECONDS
//
// makes a TAP device of that name in the network namespace of each process, prints "ready", and
// hands every frame of one to the other so many seconds after it came, in order, until it is
// killed. The rate is limited elsewhere (tc, on the devices).
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 4096, MOST_FRAME = 1 << 14 }; // a frame that finds no room is lost, as on a wire

typedef struct frame {
    double due; // seconds of the clock
    int length;
    char bytes[MOST_FRAME];
} frame;

typedef struct way { // from one device to the other
    int from, to;
    unsigned first, next; // frames that wait: [first, next), modulo FRAMES
    frame *frames;        // (FRAMES)
} way;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const char *doing)
{
    perror(doing);
    exit(1);
}

// Returns a TAP device in the network namespace of a process.
static int open_device(const char *process, const char *name)
{
    char path[64];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    snprintf(path, sizeof path, "/proc/%s/ns/net", process);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        fail(path);
    close(space);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0)
        fail("/dev/net/tun");
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(device, TUNSETIFF, &request) != 0)
        fail("TUNSETIFF");
    return device;
}

static void take_frames(way *w, double delay)
{
    while (w->next - w->first < FRAMES) {
        frame *f = &w->frames[w->next % FRAMES];
        ssize_t length = read(w->from, f->bytes, sizeof f->bytes);
        if (length <= 0)
            return;
        f->length = (int)length;
        f->due = now() + delay;
        w->next++;
    }
}

// Hands on what is due; returns when the next frame is, or a second from now.
static double give_frames(way *w)
{
    double time = now();
    for (; w->first != w->next; w->first++) {
        const frame *f = &w->frames[w->first % FRAMES];
        if (f->due > time)
            return f->due;
        // A device that is down loses it.
        ssize_t written = write(w->to, f->bytes, (size_t)f->length);
        (void)written;
    }
    return time + 1;
}

static void run(way ways[2], double delay)
{
    for (;;) {
        double due[2];
        for (int i = 0; i < 2; i++)
            take_frames(&ways[i], delay);
        for (int i = 0; i < 2; i++)
            due[i] = give_frames(&ways[i]);
        double left = (due[0] < due[1] ? due[0] : due[1]) - now();
        struct pollfd devices[] = {{ways[0].from, POLLIN, 0}, {ways[1].from, POLLIN, 0}};
        const struct timespec wait = {.tv_sec = left >= 1,
                                      .tv_nsec = left >= 1  ? 0
                                                 : left > 0 ? (long)(left * 1e9)
                                                            : 0};
        ppoll(devices, 2, &wait, NULL);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: delay_line PROCESS_A PROCESS_B DEVICE SECONDS\n");
        return 64;
    }
    int a = open_device(argv[1], argv[3]), b = open_device(argv[2], argv[3]);
    way ways[2] = {{.from = a, .to = b}, {.from = b, .to = a}};
    for (int i = 0; i < 2; i++)
        if (!(ways[i].frames = malloc(FRAMES * sizeof *ways[i].frames)))
            fail("no memory");
    puts("ready");
    fflush(stdout);
    run(ways, atof(argv[4]));
    return 0;
}
