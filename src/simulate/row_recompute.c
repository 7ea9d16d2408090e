// What is computed again, in the words that frameworks have for it: Megatron's granularity (full,
// selective) and method (uniform, block), torchtitan's mode (full, selective by layers or by
// operator), or how many layers of how many.
#include "simulate/row_reader.h"

#include "simulate/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_LAYERS 100000

static const char *const names[] = {
    [ZR_SIM_KEEP] = "none",
    [ZR_SIM_SELECTIVE] = "selective",
    [ZR_SIM_OPERATORS] = "selective, by operator",
    [ZR_SIM_FULL] = "full",
};

bool zr_sim_row_fits(const zr_sim_run *run)
{
    zr_sim_run one = *run;
    zero_error error;
    return zr_sim_run_complete(&one, &error) == ZERO_OK &&
           zr_sim_memory(&one) < 0.9 * run->machine.memory;
}

// What a row does not say of memory is chosen so that it fits.
static zr_sim_recompute choose_recompute(const zr_sim_run *run)
{
    static const zr_sim_recompute from_least[] = {ZR_SIM_KEEP, ZR_SIM_SELECTIVE};
    zr_sim_run one = *run;
    if (run->framework.recomputes)
        return ZR_SIM_FULL;
    if (run->framework.flash)
        return ZR_SIM_KEEP;
    zr_sim_row_set_none(&one.micro_batch, 1);
    one.accumulation = 0;
    one.global_batch = 0;
    for (int i = 0; i < ZR_COUNT(from_least); i++) {
        one.recompute = from_least[i];
        if (zr_sim_row_fits(&one))
            return from_least[i];
    }
    return ZR_SIM_FULL;
}

// Returns where a word stands as a whole; NULL: nowhere.
static const char *find_word(const char *text, const char *word)
{
    for (const char *at = text; *at != 0; at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && zr_sim_text_begins(at, word))
            return at;
    return NULL;
}

static bool has_any(const char *text, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (find_word(text, words[i]) != NULL)
            return true;
    return false;
}

static bool begins_with_any(const char *text, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (zr_sim_text_begins(text, words[i]))
            return true;
    return false;
}

// Returns the n of "every nth layer"; 0: the text has none.
static int parse_every_nth(const char *text)
{
    static const char word[] = "every ";
    for (; *text != 0; text++)
        if (strncasecmp(text, word, sizeof word - 1) == 0 &&
            isdigit((unsigned char)text[sizeof word - 1]))
            return (int)ZR_MIN(strtol(text + sizeof word - 1, NULL, 10), 1000);
    return 0;
}

// Reads "2 of 8 layers"; false: the text has no such words.
static bool read_row_recompute_part(const char *text, double *layers, double *all)
{
    const char *of = find_word(text, "of");
    if (of == NULL || !zr_sim_text_has(of, "layer"))
        return false;
    const char *begin = of;
    while (begin > text && (isdigit((unsigned char)begin[-1]) || begin[-1] == ' '))
        begin--;
    *layers = zr_sim_text_number(begin);
    *all = zr_sim_text_number(of + strlen("of"));
    return *layers > 0 && *layers <= *all;
}

// Reads the layers of each stage that Megatron's method block computes again; 0: the text has none.
static double read_block(const char *text)
{
    const char *block = find_word(text, "block");
    while (block != NULL && *block != 0 && !isdigit((unsigned char)*block))
        block++;
    return block == NULL ? 0 : zr_sim_text_number(block);
}

static void set_part(zr_sim_row_reader *r, double layers, double all)
{
    double every = ZR_MIN(ZR_MAX(1, round(all / layers)), MOST_LAYERS);
    r->run->recompute = ZR_SIM_FULL;
    r->run->recompute_every = (int)every;
    zr_sim_row_tell(r, "recompute full, of every %g layers one", every);
}

// Returns whether the words say which layers, and reads them.
static bool read_layers(zr_sim_row_reader *r, const char *text)
{
    zr_sim_run *run = r->run;
    int every = parse_every_nth(text);
    double layers, all, stage = (double)run->layers / run->pipeline, block = read_block(text);
    if (every > 0) {
        run->recompute = ZR_SIM_FULL;
        run->recompute_every = every;
    } else if (read_row_recompute_part(text, &layers, &all)) {
        set_part(r, layers, all);
    } else if (block > 0) {
        set_part(r, ZR_MIN(block, stage), stage);
    } else {
        return false;
    }
    return true;
}

// Returns whether the words say what of a layer, and reads them.
static bool read_kind(const char *text, const char *system, zr_sim_recompute *out)
{
    static const char *const full[] = {"full", "uniform", "block", "all"};
    static const char *const operators[] = {"op", "ops", "operator", "operators"};
    static const char *const yes[] = {"yes", "on", "true"};
    bool selective = zr_sim_text_has(text, "selective");
    if (zr_sim_text_begins(text, full[0]))
        *out = ZR_SIM_FULL;
    else if (has_any(text, operators, ZR_COUNT(operators)) ||
             (selective && zr_sim_text_has(system, "titan")))
        *out = ZR_SIM_OPERATORS;
    else if (selective || zr_sim_text_has(text, "attention") || zr_sim_text_has(text, "core_attn"))
        *out = ZR_SIM_SELECTIVE;
    else if (has_any(text, full, ZR_COUNT(full)) || begins_with_any(text, yes, ZR_COUNT(yes)))
        *out = ZR_SIM_FULL;
    else
        return false;
    return true;
}

void zr_sim_row_read_recompute(zr_sim_row_reader *r)
{
    static const char *const none[] = {"none", "no", "off", "false", "0"};
    zr_sim_run *run = r->run;
    const char *text = zr_sim_skip_spaces(zr_sim_row_cell(r, "recompute"));
    run->recompute_every = 1;
    if (zr_sim_text_has(text, "sequence parallel"))
        run->sequence_parallel = run->tensor > 1;
    if (begins_with_any(text, none, ZR_COUNT(none))) {
        run->recompute = ZR_SIM_KEEP;
        return;
    }
    if (read_layers(r, text))
        return;
    if (read_kind(text, r->system, &run->recompute)) {
        // One of the usual names needs no words.
        if (!zr_sim_text_begins(text, "full") && !zr_sim_text_begins(text, "selective"))
            zr_sim_row_tell(r, "recompute %s", names[run->recompute]);
        return;
    }
    run->recompute = choose_recompute(run);
    zr_sim_row_tell(r, "recompute %s%s", names[run->recompute],
                    *text != 0 ? ", since the cell's words are not known" : "");
}
