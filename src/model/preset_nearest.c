// Finds the preset with the name nearest to a wrong one. A name is words between dashes: a family,
// a version, a size, ... Words are compared as wholes: "gpt2-small" is nearer to "gpt2" than to
// "gpt2-xl", and "llama-3-70b" to "llama-3.1-70b" than to "llama-2-7b".
#include "model/lm_table.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 8 };

typedef struct words {
    char at[MOST_WORDS][ZR_SPEC_WORD];
    int count;
} words;

// Cuts a name, without what stands before its last slash, into words in lower case.
static void cut_preset_names(const char *name, words *out)
{
    const char *slash = strrchr(name, '/');
    *out = (words){0};
    for (name = slash ? slash + 1 : name; *name && out->count < MOST_WORDS; out->count++) {
        size_t length = strcspn(name, "-_ ");
        zr_spec_copy(out->at[out->count], name, length);
        for (char *c = out->at[out->count]; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        name += length;
        name += strspn(name, "-_ ");
    }
}

// Joins the words: "gpt2xl" is "gpt2-xl" without its dash.
static void join_preset_names(const words *w, char out[static MOST_WORDS * ZR_SPEC_WORD])
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < w->count; i++) {
        size_t length = strlen(w->at[i]);
        memcpy(out + used, w->at[i], length + 1);
        used += length;
    }
}

static int count_letters(const words *w)
{
    int letters = 0;
    for (int i = 0; i < w->count; i++)
        letters += (int)strlen(w->at[i]);
    return letters;
}

static bool is_size(const char *word) // "70b", "135m"
{
    size_t length = strlen(word);
    return length > 1 && isdigit((unsigned char)word[0]) && strchr("bmk", word[length - 1]);
}

// Returns how far two words are apart. If half of their letters or more differ, or if they are
// different sizes, neither is a misspelling of the other.
static int word_distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), distance = zr_spec_distance(a, b);
    bool sizes = distance > 0 && is_size(a) && is_size(b);
    if (!sizes && strncmp(a, b, (size_t)ZR_MIN(n, m)) == 0) // "3" and "3.1"
        return abs(n - m);
    return sizes || 2 * distance >= ZR_MAX(n, m) ? n + m : distance;
}

// Returns the letters by which two names differ, a missing word's counted whole.
static int name_distance(const words *a, const words *b)
{
    int row[MOST_WORDS + 1] = {0};
    char all[MOST_WORDS * ZR_SPEC_WORD], others[MOST_WORDS * ZR_SPEC_WORD];
    join_preset_names(a, all);
    join_preset_names(b, others);
    if (strcmp(all, others) == 0)
        return 0;
    for (int j = 0; j < b->count; j++)
        row[j + 1] = row[j] + (int)strlen(b->at[j]);
    for (int i = 0; i < a->count; i++) {
        int gone = (int)strlen(a->at[i]), diagonal = row[0];
        row[0] += gone;
        for (int j = 0; j < b->count; j++) {
            int other =
                diagonal + (strcmp(a->at[i], b->at[j]) ? word_distance(a->at[i], b->at[j]) : 0);
            int skip = ZR_MIN(row[j] + (int)strlen(b->at[j]), row[j + 1] + gone);
            diagonal = row[j + 1];
            row[j + 1] = ZR_MIN(other, skip);
        }
    }
    return row[b->count];
}

const char *zr_preset_nearest(const char *name)
{
    words written, known;
    int best = INT_MAX;
    const char *nearest = NULL;
    cut_preset_names(name, &written);
    int letters = count_letters(&written);
    for (int kind = 0; kind < ZR_LM_KINDS; kind++) {
        const zr_lm_preset *preset = zr_architecture_at(kind)->presets;
        for (; preset->name; preset++) {
            cut_preset_names(preset->name, &known);
            int differs = name_distance(&written, &known);
            bool family = strcmp(written.at[0], known.at[0]) == 0;
            if ((family || 2 * differs < ZR_MAX(letters, count_letters(&known))) &&
                differs < best) {
                best = differs;
                nearest = preset->name;
            }
        }
    }
    return nearest;
}
