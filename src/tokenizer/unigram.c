// Loads a Unigram model (unigram.h).
#include "tokenizer/unigram.h"
#include "tokenizer/spm_normalize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define PENALTY 10.0       // an unknown character scores as much less than the worst piece
#define LONGEST_PIECE 1024 // bytes, as in SentencePiece's file; each position may be asked for all

static zero_status refuse_entry(const zr_bpe_loader *loader, size_t i, const char *what,
                                zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: piece %zu of the Unigram model %s; [\"piece\", score] would be right",
                   loader->path, i, what);
}

// Makes an object of the pieces, as a BPE has it: text to id.
static zero_status number_pieces(const zr_bpe_loader *loader, const json_t *vocab, json_t *out,
                                 zero_error *error)
{
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *entry = json_array_get(vocab, i), *score = json_array_get(entry, 1);
        const char *piece = json_string_value(json_array_get(entry, 0));
        if (!piece || json_array_size(entry) != 2)
            return refuse_entry(loader, i, "is no pair that begins with a text", error);
        if (!json_is_number(score) || !isfinite(json_number_value(score)))
            return refuse_entry(loader, i, "has no finite score", error);
        if (strlen(piece) > LONGEST_PIECE)
            return refuse_entry(loader, i, "has more than 1024 bytes", error);
        if (json_object_get(out, piece))
            return zr_fail(error, ZERO_ERR_DATA, "%s: the pieces %lld and %zu are both \"%.100s\"",
                           loader->path, (long long)json_integer_value(json_object_get(out, piece)),
                           i, piece);
        if (json_object_set_new(out, piece, json_integer((json_int_t)i)))
            return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its pieces", loader->path);
    }
    return ZERO_OK;
}

static zero_status load_unknown(zr_bpe_loader *loader, const json_t *id, int64_t count,
                                zero_error *error)
{
    loader->bpe->unk = -1;
    if (!id || json_is_null(id))
        return ZERO_OK;
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= count)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the unk_id of the Unigram model is none of its ids, 0 to %lld",
                       loader->path, (long long)count - 1);
    loader->bpe->unk = (int32_t)json_integer_value(id);
    return ZERO_OK;
}

static zero_status load_scores(zr_bpe_loader *loader, const json_t *vocab, zero_error *error)
{
    zr_unigram *made = zr_alloc(sizeof *made, error);
    loader->bpe->unigram = made;
    if (!made)
        return ZERO_ERR_MEMORY;
    made->scores = zr_alloc((size_t)loader->tokenizer->vocabulary * sizeof *made->scores, error);
    made->exact = true;
    for (size_t i = 0; i < json_array_size(vocab) && made->scores; i++) {
        double score = json_number_value(json_array_get(json_array_get(vocab, i), 1));
        made->scores[i] = score;
        made->exact &= (double)(float)score == score;
    }
    return made->scores ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_unigram_load(zr_bpe_loader *loader, const json_t *model, const json_t *added,
                            zero_error *error)
{
    const json_t *vocab = json_object_get(model, "vocab");
    json_t *ids = json_object();
    zero_status status = ids ? number_pieces(loader, vocab, ids, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = zr_bpe_load_vocabulary(loader, ids, added, error);
    json_decref(ids);
    ZERO_TRY(status);
    loader->bpe->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    ZERO_TRY(load_unknown(loader, json_object_get(model, "unk_id"), (int64_t)json_array_size(vocab),
                          error));
    return load_scores(loader, vocab, error);
}

// ---- What depends on the whole file

typedef enum piece_use { USE_FOUND, USE_SYMBOL, USE_HIDDEN } piece_use;

// Finds what each token of the model is in a text. *out (zr_free) is (model_tokens).
static zero_status find_uses(const zr_bpe *bpe, unsigned char **out, zero_error *error)
{
    unsigned char *uses = zr_alloc((size_t)bpe->model_tokens + 1, error);
    const zr_spm_rules *rules = bpe->rules;
    *out = uses;
    if (!uses)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < bpe->added_count; i++)
        if (bpe->added[i].id < bpe->model_tokens && (bpe->added[i].special || rules))
            uses[bpe->added[i].id] = USE_HIDDEN;
    for (int byte = 0; byte < 256 && rules && bpe->byte_fallback; byte++)
        if (bpe->symbols[byte] >= 0)
            uses[bpe->symbols[byte]] = USE_HIDDEN;
    for (int32_t i = 0; rules && i < rules->symbol_count; i++)
        uses[rules->symbols[i]] = USE_SYMBOL;
    if (rules && bpe->unk >= 0)
        uses[bpe->unk] = USE_HIDDEN;
    return ZERO_OK;
}

double zr_unigram_symbol_score(uint32_t length)
{
    return (double)(float)(0.1 * (double)((int64_t)length - 1));
}

// The library sentencepiece takes the lowest score of its pieces, `tokenizers` that of all tokens.
static void complete_scores(zr_bpe *bpe, const unsigned char *uses)
{
    zr_unigram *u = bpe->unigram;
    double least = bpe->rules ? FLT_MAX : INFINITY;
    for (int32_t id = 0; id < bpe->model_tokens; id++) {
        if (bpe->rules && uses[id] != USE_FOUND)
            continue;
        least = ZR_MIN(least, u->scores[id]);
    }
    u->unknown = bpe->rules ? (double)((float)least - (float)PENALTY) : least - PENALTY;
    for (int32_t i = 0; bpe->rules && i < bpe->rules->symbol_count; i++) {
        int32_t id = bpe->rules->symbols[i];
        u->scores[id] = zr_unigram_symbol_score(bpe->spelled[id].length);
    }
}

static zero_status plant_trie(zr_bpe_loader *loader, const unsigned char *uses, zero_error *error)
{
    const zr_bpe *bpe = loader->bpe;
    zr_piece_trie *trie = &bpe->unigram->trie;
    size_t bytes = 0;
    for (int32_t id = 0; id < bpe->model_tokens; id++)
        bytes += bpe->spelled[id].length;
    ZERO_TRY(zr_piece_trie_create(loader->path, bytes, trie, error));
    for (int32_t id = 0; id < bpe->model_tokens; id++)
        if (uses[id] != USE_HIDDEN)
            zr_piece_trie_add(trie, bpe->text + bpe->spelled[id].at, bpe->spelled[id].length, id);
    return zr_piece_trie_shrink(trie, error);
}

zero_status zr_unigram_finish(zr_bpe_loader *loader, zero_error *error)
{
    unsigned char *uses;
    zr_bpe *bpe = loader->bpe;
    ZERO_TRY(find_uses(bpe, &uses, error));
    bpe->unigram->fp32 = bpe->rules != NULL;
    complete_scores(bpe, uses);
    zero_status status = plant_trie(loader, uses, error);
    zr_free(uses);
    return status;
}

void zr_unigram_free(zr_unigram *unigram)
{
    if (!unigram)
        return;
    zr_free(unigram->scores);
    zr_piece_trie_free(&unigram->trie);
    zr_free(unigram);
}
