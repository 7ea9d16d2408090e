// Joins ranks under a launcher that hands on no descriptor: rank 0 of the machine creates the memfd
// and gives it to the others over an abstract unix socket (which leaves no file), named by user and
// job. Both ends check that the other one is the same user.
#define _GNU_SOURCE
#include "comm/local_control.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RETRY_SECONDS 0.02

typedef struct hello { // from a rank that wants the descriptor
    uint64_t job;
    int32_t rank, size;
} hello;

static socklen_t make_address(uint64_t job, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "zero.%u.%016llx",
                          (unsigned)geteuid(), (unsigned long long)job);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

// A message of one byte that carries a descriptor.
typedef struct descriptor_message {
    char byte;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec data;
    struct msghdr header;
} descriptor_message;

static void prepare_message(descriptor_message *message)
{
    *message = (descriptor_message){0};
    message->data = (struct iovec){.iov_base = &message->byte, .iov_len = 1};
    message->header = (struct msghdr){.msg_iov = &message->data,
                                      .msg_iovlen = 1,
                                      .msg_control = message->control,
                                      .msg_controllen = sizeof message->control};
}

static bool send_descriptor(int fd, int descriptor)
{
    descriptor_message message;
    prepare_message(&message);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message.header);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(fd, &message.header, MSG_NOSIGNAL) == 1;
}

static int receive_descriptor(int fd)
{
    descriptor_message message;
    int descriptor = -1;
    prepare_message(&message);
    if (recvmsg(fd, &message.header, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message.header);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

static bool wait_readable(int fd, double seconds)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    return poll(&item, 1, (int)(seconds * 1000)) == 1;
}

// Returns the seconds slept since `before`; 0 if the sleep took so much longer than requested that
// this process must have been stopped.
static double slept_since(double before)
{
    double slept = zr_clock_seconds() - before;
    return slept < 10 * ZR_NAP ? slept : 0;
}

static zero_status serve_one(int listener, const zr_launch *launch, int memfd, bool *served,
                             int *count, zero_error *error)
{
    hello greeting;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return ZERO_OK;
    zero_status status = ZERO_OK;
    bool heard = is_same_user(fd) && wait_readable(fd, 1) &&
                 recv(fd, &greeting, sizeof greeting, 0) == (ssize_t)sizeof greeting &&
                 greeting.job == launch->job;
    if (heard &&
        (greeting.size != launch->size || greeting.rank < 1 || greeting.rank >= launch->size))
        status = zr_fail(error, ZERO_ERR_CONFIG,
                         "a process that says rank %d of %d wants to join this job of %d ranks",
                         greeting.rank, greeting.size, launch->size);
    else if (heard && served[greeting.rank])
        status = zr_fail(error, ZERO_ERR_CONFIG,
                         "two processes of the job say that they are rank %d", greeting.rank);
    else if (heard && send_descriptor(fd, memfd)) {
        served[greeting.rank] = true;
        ++*count;
    }
    close(fd);
    return status;
}

static zero_status serve_joining_ranks(int listener, const zr_launch *launch, double timeout,
                                       int memfd, zero_error *error)
{
    bool served[ZERO_MAX_RANKS] = {true};
    int count = 1, before = 1;
    double stalled = 0;
    while (count < launch->size && stalled < timeout) {
        double start = zr_clock_seconds();
        if (wait_readable(listener, ZR_NAP))
            ZERO_TRY(serve_one(listener, launch, memfd, served, &count, error));
        stalled = count > before ? 0 : stalled + slept_since(start);
        before = count;
    }
    int missing = 0;
    while (missing < launch->size && served[missing])
        missing++;
    if (missing < launch->size)
        return zr_fail(
            error, ZERO_ERR_TIMEOUT,
            "rank %d has not joined the %d ranks of this machine within %g s (%d are here)",
            missing, launch->size, timeout, count);
    return ZERO_OK;
}

static zero_status create_and_serve(const zr_launch *launch, double timeout, int *memfd,
                                    zr_control **control, zero_error *error)
{
    struct sockaddr_un address;
    socklen_t length = make_address(launch->job, &address);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return zr_fail_errno(error, ZERO_ERR_IO, errno,
                             "opening a unix socket for the ranks of this machine");
    zero_status status;
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, ZERO_MAX_RANKS)) {
        status = zr_fail_errno(error, ZERO_ERR_IO, errno,
                               "offering shared memory at the abstract socket @%s",
                               address.sun_path + 1);
        goto undo_socket;
    }
    status = zr_local_memfd_create(launch->size, memfd, control, error);
    if (status != ZERO_OK)
        goto undo_socket;
    status = serve_joining_ranks(listener, launch, timeout, *memfd, error);
    if (status != ZERO_OK) {
        zr_local_control_unmap(*control);
        close(*memfd);
    }
undo_socket:
    close(listener);
    return status;
}

// Requests the descriptor from rank 0. Returns -1 if rank 0 does not serve this job yet.
static int request_once(const zr_launch *launch, double timeout)
{
    struct sockaddr_un address;
    socklen_t length = make_address(launch->job, &address);
    hello greeting = {.job = launch->job, .rank = launch->rank, .size = launch->size};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), descriptor = -1;
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, length) == 0 && is_same_user(fd) &&
        send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) == (ssize_t)sizeof greeting &&
        wait_readable(fd, timeout))
        descriptor = receive_descriptor(fd);
    close(fd);
    return descriptor;
}

static zero_status request_memfd(const zr_launch *launch, double timeout, int *memfd,
                                 zr_control **control, zero_error *error)
{
    double stalled = 0;
    while ((*memfd = request_once(launch, timeout)) < 0 && stalled < timeout) {
        double start = zr_clock_seconds();
        zr_sleep_seconds(RETRY_SECONDS);
        stalled += slept_since(start);
    }
    if (*memfd < 0)
        return zr_fail(
            error, ZERO_ERR_TIMEOUT,
            "rank 0 of this machine has not offered shared memory to rank %d within %g s",
            launch->rank, timeout);
    zero_status status = zr_local_control_map(*memfd, control, error);
    if (status != ZERO_OK)
        close(*memfd);
    return status;
}

zero_status zr_local_hand_over(const zr_launch *launch, double timeout, int *memfd,
                               zr_control **control, zero_error *error)
{
    return launch->rank == 0 ? create_and_serve(launch, timeout, memfd, control, error)
                             : request_memfd(launch, timeout, memfd, control, error);
}
