// Names come from the program's own table of symbols, which has static functions, too. What is
// tested is compiled without inlining and calls that replace their caller (meson.build), so that
// each function that leads to a wait has a frame.
#define _GNU_SOURCE
#include "far_places.h"

#include "base/numbers.h"

#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PLACES = 256, DEPTH = 32 };

// They wait for whoever calls them.
static const char *const hand_on[] = {
    "far_place_now",  "far_makes_wait", "order_after",          "finish_mark", "zr_queue_after",
    "zr_mark_finish", "zr_comm_finish", "zr_far_await",         "finish",      "bring",
    "await_all",      "zr_far_settle",  "__wrap_zr_local_await"};

static struct {
    pthread_mutex_t lock;
    const char *program;
    size_t bytes;
    const ElfW(Sym) * symbols;
    const char *names;
    size_t symbol_count;
    uintptr_t base;
    struct {
        uintptr_t at;
        const char *function;
    } places[MOST_PLACES];
    int count;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void give_up(const char *why)
{
    fprintf(stderr, "far: places: %s\n", why);
    abort();
}

// ---- the table of symbols ----

static void map_program(void)
{
    struct stat found;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &found) != 0)
        give_up("the program cannot be read");
    known.bytes = (size_t)found.st_size;
    known.program = mmap(NULL, known.bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (known.program == MAP_FAILED)
        give_up("the program cannot be mapped");
    close(file);
}

static int note_base(struct dl_phdr_info *info, size_t size, void *user)
{
    known.base = info->dlpi_addr; // the program itself comes first
    return 1;
}

static void read_symbols(void)
{
    map_program();
    dl_iterate_phdr(note_base, NULL);
    const ElfW(Ehdr) *header = (const void *)known.program;
    const ElfW(Shdr) *sections = (const void *)(known.program + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB) {
            known.symbols = (const void *)(known.program + sections[i].sh_offset);
            known.symbol_count = sections[i].sh_size / sizeof *known.symbols;
            known.names = known.program + sections[sections[i].sh_link].sh_offset;
        }
    if (!known.symbols)
        give_up("the program has no table of symbols");
}

// Returns the function in which an address lies, or NULL.
static const char *function_at(uintptr_t address)
{
    for (size_t i = 0; i < known.symbol_count; i++) {
        const ElfW(Sym) *one = &known.symbols[i];
        if (ELF64_ST_TYPE(one->st_info) == STT_FUNC && address - known.base >= one->st_value &&
            address - known.base < one->st_value + one->st_size)
            return known.names + one->st_name;
    }
    return NULL;
}

// ---- places ----

// Compilers add ".isra.0" and the like.
static int length_of(const char *function) { return (int)strcspn(function, "."); }

static bool hands_on(const char *function)
{
    size_t length = (size_t)length_of(function);
    for (int i = 0; i < ZR_COUNT(hand_on); i++)
        if (strlen(hand_on[i]) == length && memcmp(function, hand_on[i], length) == 0)
            return true;
    return false;
}

static int place_of(uintptr_t at, const char *function)
{
    for (int i = 0; i < known.count; i++)
        if (known.places[i].at == at)
            return i + 1;
    if (known.count == MOST_PLACES)
        give_up("more than there is room for");
    known.places[known.count].at = at;
    known.places[known.count].function = function;
    return ++known.count;
}

static int place_among(void *const *frames, int count)
{
    for (int i = 0; i < count; i++) {
        uintptr_t at = (uintptr_t)frames[i];
        for (int k = 0; k < known.count; k++) // it is found by its address alone
            if (known.places[k].at == at)
                return k + 1;
        const char *function = function_at(at - 1);
        if (function && !hands_on(function))
            return place_of(at, function);
    }
    give_up("a wait that no function makes");
    return 0;
}

int far_place_now(void)
{
    void *frames[DEPTH];
    int count = backtrace(frames, DEPTH);
    pthread_mutex_lock(&known.lock);
    if (!known.program)
        read_symbols();
    int place = place_among(frames, count);
    pthread_mutex_unlock(&known.lock);
    return place;
}

int far_place_count(void) { return known.count; }

const char *far_place_name(int place)
{
    static char name[160];
    const char *function = known.places[place - 1].function;
    int alike = 0, before = 0;
    for (int i = 0; i < known.count; i++)
        if (strcmp(known.places[i].function, function) == 0) {
            alike++;
            before += known.places[i].at <= known.places[place - 1].at;
        }
    if (alike > 1)
        snprintf(name, sizeof name, "%.*s %d", length_of(function), function, before);
    else
        snprintf(name, sizeof name, "%.*s", length_of(function), function);
    return name;
}
