// The thread that reads a mapped byte that its file no longer has gets SIGBUS at that instruction.
// The handler asks the system which file is mapped at the address, names it, and ends the process.
// It allocates nothing and takes no lock of its own. The only function of the library that it calls
// is zero_comm_abort, and only for mapped files, because no thread reads those while it holds a
// lock that zero_comm_abort needs.
#define _GNU_SOURCE
#include "commands.h"
#include "running.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zero/run.h>

static const cli_command *running;
static zero_comm *peers;
static bool supervised; // the supervisor prints the message

typedef struct line {
    char text[ZERO_MESSAGE_BYTES];
    size_t length;
} line;

static void add_text(line *out, const char *text)
{
    for (; *text && out->length < sizeof out->text - 1; text++)
        out->text[out->length++] = *text;
    out->text[out->length] = 0;
}

// Escapes all but plain ASCII, because a name may contain control characters that a terminal obeys.
static void add_escaped(line *out, const char *name)
{
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain = c >= 0x20 && c < 0x7f;
        const char escaped[] = {'\\', 'x', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15],
                                0},
                   itself[] = {*name, 0};
        add_text(out, plain || c >= 0x80 ? itself : escaped);
    }
}

static void add_number(line *out, uint64_t number)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    add_text(out, digits + at);
}

// A mapping; `offset` is the position of its first byte in the file.
typedef struct place {
    uint64_t begin, end, offset;
    char path[1024];
} place;

static uint64_t take_hex(const char **at)
{
    uint64_t value = 0;
    for (;; (*at)++) {
        char c = **at;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return value;
        value = value << 4 | (uint64_t)digit;
    }
}

// Parses "begin-end rw-p offset device inode path", a line of /proc/self/maps.
static void parse_mapping(const char *text, place *out)
{
    out->begin = take_hex(&text);
    text += *text == '-';
    out->end = take_hex(&text);
    text += strspn(text, " ");
    text += strcspn(text, " "); // the permissions
    text += strspn(text, " ");
    out->offset = take_hex(&text);
    const char *path = strchr(text, '/');
    out->path[0] = 0;
    if (path)
        strncat(out->path, path, sizeof out->path - 1);
}

// Finds the mapping that contains `address`; false: there is none.
static bool find_mapping(uint64_t address, place *out)
{
    char text[sizeof out->path + 128], block[512];
    size_t length = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t got; fd >= 0 && (got = read(fd, block, sizeof block)) > 0;) {
        for (ssize_t i = 0; i < got; i++) {
            if (block[i] != '\n') {
                length += length < sizeof text - 1;
                text[length - 1] = block[i];
                continue;
            }
            text[length] = 0;
            length = 0;
            parse_mapping(text, out);
            if (address >= out->begin && address < out->end) {
                close(fd);
                return true;
            }
        }
    }
    return false;
}

static bool is_disk_file(const char *path)
{
    return *path && strncmp(path, "/memfd:", 7) && strncmp(path, "/dev/shm/", 9); // not memory
}

static int describe_lost_page(const place *at, uint64_t address, line *out)
{
    uint64_t byte = at->offset + (address - at->begin);
    struct stat info;
    bool there = stat(at->path, &info) == 0, shorter = !there || (uint64_t)info.st_size <= byte;
    add_text(out, "\"");
    add_escaped(out, at->path);
    add_text(out, shorter ? "\" was made shorter while it was read: "
                          : "\" cannot be read any more, its disk has failed: ");
    if (there && shorter) {
        add_text(out, "it has ");
        add_number(out, (uint64_t)info.st_size);
        add_text(out, " bytes now, and ");
    }
    add_text(out, "byte ");
    add_number(out, byte);
    add_text(
        out,
        shorter
            ? " was needed; a file that is read must not change (write another one, and rename it)"
            : " was needed");
    return zero_status_exit_code(shorter ? ZERO_ERR_DATA : ZERO_ERR_IO);
}

static void print_message(const line *message)
{
    line whole = {.length = 0};
    add_text(&whole, "zero ");
    add_text(&whole, running->name);
    add_text(&whole, ": ");
    add_text(&whole, message->text);
    add_text(&whole, "\n");
    ssize_t written = write(STDERR_FILENO, whole.text, whole.length);
    (void)written; // if this fails, there is no other way to tell
}

static void end_by_fault(int number, siginfo_t *info, void *context)
{
    static atomic_flag first = ATOMIC_FLAG_INIT;
    static place at; // large
    static line message;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    while (atomic_flag_test_and_set(&first))
        pause(); // another thread ends the process
    if (info->si_code != BUS_ADRERR || !find_mapping(address, &at) || !is_disk_file(at.path)) {
        signal(number, SIG_DFL); // the instruction runs again, as if there were no handler
        atomic_flag_clear(&first);
        return;
    }
    int code = describe_lost_page(&at, address, &message);
    if (peers && zero_comm_size(peers) > 1)
        zero_comm_abort(peers, message.text);
    if (!supervised)
        print_message(&message);
    _exit(code);
}

void cli_faults_install(const cli_command *command)
{
    struct sigaction action = {.sa_sigaction = end_by_fault, .sa_flags = SA_SIGINFO};
    running = command;
    supervised = zero_supervised();
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); // a write beyond the limit then fails with EFBIG
}

void cli_faults_tell(zero_comm *comm) { peers = comm; }
