// The driver without libFuzzer: replay CORPUS MUTATIONS [DICTIONARY]
//
// It runs every file of the corpus, some of which must be accepted; MUTATIONS mutations of them,
// the same ones in each run; and every file again with its 1st, 2nd, 3rd, ... allocation made to
// fail. There must be no crash, no leak (if a sanitizer looks for them), and no other answer than
// "no memory" or the usual one. Only allocations of the library fail: if a buffer of jansson's
// lexer cannot grow, it drops bytes and ends the process (docs/reliability.md).
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

#include "base/file.h"

enum { MOST_FILES = 256, MOST_BYTES = 1 << 16, MOST_WORDS = 256, MOST_ALLOCATIONS = 3000 };

typedef struct input {
    char *data;
    size_t size;
    char name[64];
} input;

typedef struct replay {
    input files[MOST_FILES];
    int file_count;
    char *words[MOST_WORDS]; // of the dictionary
    int word_count;
    uint64_t random;
    uint8_t *room; // (MOST_BYTES) the mutation under construction
    size_t size;
} replay;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t draw(replay *r, uint64_t below) // splitmix64
{
    uint64_t z = (r->random += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % below;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const input *)a)->name, ((const input *)b)->name);
}

static void read_corpus(replay *r, const char *folder)
{
    DIR *directory = opendir(folder);
    fuzz_must(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[1024];
        input *file = &r->files[r->file_count];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        snprintf(file->name, sizeof file->name, "%.60s", entry->d_name);
        fuzz_must(zr_file_read(path, MOST_BYTES / 2, &file->data, &file->size, NULL) == ZERO_OK);
        fuzz_must(++r->file_count < MOST_FILES);
    }
    closedir(directory);
    qsort(r->files, (size_t)r->file_count, sizeof *r->files, by_name);
}

// libFuzzer's form, without its escapes: a word in quotes a line; \" and \\ alone are taken as they
// mean.
static void read_dictionary(replay *r, const char *path)
{
    char line[256];
    FILE *file = fopen(path, "r");
    fuzz_must(file);
    while (fgets(line, sizeof line, file) && r->word_count < MOST_WORDS) {
        char *from = strchr(line, '"'), *end = from ? strrchr(line, '"') : NULL, *to = line;
        if (line[0] == '#' || !from || end == from)
            continue;
        for (from++; from < end; from++)
            *to++ = *from == '\\' ? *++from : *from;
        *to = 0;
        r->words[r->word_count++] = strdup(line);
    }
    fclose(file);
}

static void remove_bytes(replay *r, size_t at, size_t count)
{
    memmove(r->room + at, r->room + at + count, r->size - at - count);
    r->size -= count;
}

static void insert_bytes(replay *r, size_t at, const void *bytes, size_t count)
{
    if (count > MOST_BYTES - r->size)
        return;
    memmove(r->room + at + count, r->room + at, r->size - at);
    memmove(r->room + at, bytes, count);
    r->size += count;
}

static void insert_part(replay *r, size_t at) // of any file of the corpus
{
    const input *from = &r->files[draw(r, (uint64_t)r->file_count)];
    size_t first = draw(r, from->size + 1);
    insert_bytes(r, at, from->data + first, draw(r, from->size - first + 1));
}

// Of the dictionary, or what breaks readers of numbers and of JSON.
static const char *draw_word(replay *r)
{
    static const char *const numbers[] = {
        "0",    "-1",   "1e9", "9223372036854775807", "18446744073709551616", "0.5", "[]", "{}",
        "null", "\"\"", "true"};
    bool known = r->word_count && draw(r, 2);
    return known ? r->words[draw(r, (uint64_t)r->word_count)] : numbers[draw(r, ZR_COUNT(numbers))];
}

// Those that need a byte at `at`; left: bytes from there on.
static void change_bytes(replay *r, uint64_t way, size_t at, size_t left)
{
    uint8_t *byte = &r->room[at];
    switch (way) {
    case 0: *byte ^= (uint8_t)(1 << draw(r, 8)); break;
    case 1: *byte = (uint8_t)draw(r, 256); break;
    case 2: remove_bytes(r, at, 1 + draw(r, ZR_MIN(left, 16))); break;
    default: *byte = (uint8_t)(*byte + (draw(r, 2) ? 1 : -1));
    }
}

static void mutate_once(replay *r)
{
    size_t at = draw(r, r->size + 1), left = r->size - at;
    const char *word = draw_word(r);
    uint64_t way = draw(r, 8);
    switch (way) {
    case 3: insert_bytes(r, at, word, strlen(word)); break;
    case 4: insert_part(r, at); break;
    case 5:
        if (left >= 8)
            memset(r->room + at, draw(r, 2) ? 0xff : 0, 1 + draw(r, 8));
        break;
    case 6: r->size = at; break;
    default:
        if (left)
            change_bytes(r, way, at, left);
    }
}

static void mutate(replay *r)
{
    const input *from = &r->files[draw(r, (uint64_t)r->file_count)];
    memcpy(r->room, from->data, from->size);
    r->size = from->size;
    for (uint64_t i = 0, count = 1 + draw(r, 4); i < count; i++)
        mutate_once(r);
}

// In a block of exactly its size, so that a byte read behind it is seen.
static zero_status run(const void *data, size_t size, zero_error *error)
{
    uint8_t *copy = malloc(size ? size : 1);
    fuzz_must(copy);
    memcpy(copy, data, size);
    zero_status status =
        error ? fuzz_one(copy, size, error) : (zero_status)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    return status;
}

// How often there was no memory; *taken: whether the file is what it should be.
static int64_t fail_allocations(const input *file, bool *taken)
{
    zero_error error = {ZERO_OK, ""};
    zero_status expected = run(file->data, file->size, &error);
    *taken = expected == ZERO_OK;
    int64_t before = zr_alloc_count(), refused = 0;
    run(file->data, file->size, &error);
    int64_t count = zr_alloc_count() - before, step = count / MOST_ALLOCATIONS + 1;
    for (int64_t nth = 1; nth <= count; nth += step) {
        error = (zero_error){ZERO_OK, ""};
        zr_alloc_fail_at(nth);
        zero_status status = run(file->data, file->size, &error);
        zr_alloc_fail_at(0);
        if (status != expected && status != ZERO_ERR_MEMORY) {
            fprintf(stderr, "%s: allocation %lld of %lld fails: %s\n", file->name, (long long)nth,
                    (long long)count, error.message);
            abort();
        }
        refused += status == ZERO_ERR_MEMORY;
    }
    return refused;
}

int main(int count, char **arguments)
{
    replay *r = calloc(1, sizeof *r);
    int64_t refused = 0, taken = 0;
    fuzz_must(count >= 3 && r && (r->room = malloc(MOST_BYTES)));
    long mutations = strtol(arguments[2], NULL, 10);
    read_corpus(r, arguments[1]);
    fuzz_must(r->file_count > 0);
    if (count > 3)
        read_dictionary(r, arguments[3]);
    for (int i = 0; i < r->file_count; i++)
        run(r->files[i].data, r->files[i].size, NULL);
    for (long i = 0; i < mutations; i++) {
        mutate(r);
        run(r->room, r->size, NULL);
    }
    for (int i = 0; i < r->file_count; i++) {
        bool is_taken;
        refused += fail_allocations(&r->files[i], &is_taken);
        taken += is_taken;
    }
    fuzz_must(refused > 0 && taken > 0);
    printf("%d files (%lld taken), %ld mutations, %lld failed allocations: nothing crashed\n",
           r->file_count, (long long)taken, mutations, (long long)refused);
    for (int i = 0; i < r->file_count; i++)
        zr_free(r->files[i].data);
    for (int i = 0; i < r->word_count; i++)
        free(r->words[i]);
    free(r->room);
    free(r);
    return 0;
}
