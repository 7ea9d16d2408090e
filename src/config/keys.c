// Searches the key table. Its rows are in keys_*.c; this file joins them into one table, in the
// order of the documentation.
#include "config/keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES 64 // longer than any component of a path

static const struct {
    const zr_key *rows;
    const int *count;
} groups[] = {
    {.rows = zr_keys_batch, .count = &zr_keys_batch_count},
    {.rows = zr_keys_zero, .count = &zr_keys_zero_count},
    {.rows = zr_keys_offload, .count = &zr_keys_offload_count},
    {.rows = zr_keys_precision, .count = &zr_keys_precision_count},
    {.rows = zr_keys_optimizer, .count = &zr_keys_optimizer_count},
    {.rows = zr_keys_schedule, .count = &zr_keys_schedule_count},
    {.rows = zr_keys_tensor, .count = &zr_keys_tensor_count},
    {.rows = zr_keys_pipeline, .count = &zr_keys_pipeline_count},
    {.rows = zr_keys_monitors, .count = &zr_keys_monitors_count},
    {.rows = zr_keys_autotuning, .count = &zr_keys_autotuning_count},
    {.rows = zr_keys_elasticity, .count = &zr_keys_elasticity_count},
    {.rows = zr_keys_unbuilt, .count = &zr_keys_unbuilt_count},
};

int zr_key_count(void)
{
    int count = 0;
    for (int i = 0; i < ZR_COUNT(groups); i++)
        count += *groups[i].count;
    return count;
}

const zr_key *zr_key_at(int index)
{
    int group = 0;
    for (; index >= *groups[group].count; group++)
        index -= *groups[group].count;
    return &groups[group].rows[index];
}

static int find_exactly(const char *path)
{
    int first = 0;
    for (int i = 0; i < ZR_COUNT(groups); i++) {
        for (int j = 0; j < *groups[i].count; j++)
            if (!strcmp(groups[i].rows[j].path, path))
                return first + j;
        first += *groups[i].count;
    }
    return -1;
}

int zr_key_find(const char *path)
{
    static const char section[] = "zero_optimization.";
    int index = find_exactly(path);
    if (index >= 0 || strncmp(path, section, sizeof section - 1))
        return index;
    char prefixed[ZR_KEY_PATH_BYTES];
    int length =
        snprintf(prefixed, sizeof prefixed, "%sstage3_%s", section, path + sizeof section - 1);
    return length < (int)sizeof prefixed ? find_exactly(prefixed) : -1;
}

bool zr_key_is_section(const char *path)
{
    size_t length = strlen(path);
    for (int i = 0; i < zr_key_count(); i++) {
        const char *row = zr_key_at(i)->path;
        if (!strncmp(row, path, length) && row[length] == '.')
            return true;
    }
    return false;
}

// Returns the Levenshtein distance between two names; case does not matter.
static int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int row[NAME_BYTES + 1];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int substituted =
                diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            diagonal = row[j];
            row[j] = ZR_MIN(substituted, ZR_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

static size_t parent_length(const char *path, size_t length)
{
    while (length && path[length - 1] != '.')
        length--;
    return length;
}

typedef struct nearest {
    const char *path, *best;
    size_t length, best_length;
    int score; // twice the distance, plus one under another parent
} nearest;

// Compares the last component of candidate[0..length) with that of the path searched for.
static void consider_candidate(nearest *search, const char *candidate, size_t length)
{
    size_t parent = parent_length(search->path, search->length),
           other = parent_length(candidate, length);
    size_t name = search->length - parent, other_name = length - other;
    if (name > NAME_BYTES || other_name > NAME_BYTES)
        return;
    int distance = edit_distance(search->path + parent, name, candidate + other, other_name);
    bool same_parent = parent == other && !strncmp(search->path, candidate, parent);
    int score = 2 * distance + !same_parent;
    if (3 * (size_t)distance <= ZR_MAX(name, other_name) && score < search->score)
        *search = (nearest){search->path, candidate, search->length, length, score};
}

void zr_key_nearest(const char *path, char out[ZR_KEY_PATH_BYTES])
{
    nearest search = {.path = path, .length = strlen(path), .score = 2 * NAME_BYTES};
    for (int i = 0; i < zr_key_count(); i++) {
        const char *row = zr_key_at(i)->path;
        for (size_t end = 1; end <= strlen(row); end++)
            if (row[end] == '.' || row[end] == 0)
                consider_candidate(&search, row, end);
    }
    snprintf(out, ZR_KEY_PATH_BYTES, "%.*s", (int)search.best_length,
             search.best ? search.best : "");
}
