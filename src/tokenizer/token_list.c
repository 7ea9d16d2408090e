// Lists the tokens of a tokenizer for llama.cpp, or says why that is not possible.
#include "tokenizer/token_list.h"

#include "base/json.h"
#include "tokenizer/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const zr_token_pre pres[] = {
    {"gpt-2", " gpt2 olmo phi-2 mpt jais ", zr_pieces_gpt2, false, false},
    {"llama-bpe", " llama3 llama-v3 ", zr_pieces_llama3, false, true},
    {"smaug-bpe", " dbrx ", zr_pieces_llama3, false, false},
    {"qwen2", " deepseek-r1-qwen ", zr_pieces_qwen2, false, false},
    {"smollm", " starcoder refact command-r ", zr_pieces_gpt2, true, false},
};

const zr_token_pre *zr_token_pre_find(const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    for (int i = 0; i < ZR_COUNT(pres); i++)
        if (!strcmp(pres[i].name, name) || strstr(pres[i].others, word))
            return &pres[i];
    return NULL;
}

static zero_status refuse(const char *why, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "this tokenizer has no form in GGUF: %s", why);
}

static void append(zr_token_list *list, const void *text, size_t length, zr_text_span *out)
{
    *out = (zr_text_span){(uint32_t)list->text.length, (uint32_t)length};
    zr_buffer_append(&list->text, text, length);
    list->text.failed |= list->text.length > UINT32_MAX / 2;
}

static zero_status reserve(zr_token_list *list, int64_t count, zero_error *error)
{
    list->count = (int32_t)count;
    list->tokens = zr_alloc(((size_t)count + 1) * sizeof *list->tokens, error);
    list->kinds = zr_alloc(((size_t)count + 1) * sizeof *list->kinds, error);
    return list->tokens && list->kinds ? ZERO_OK : ZERO_ERR_MEMORY;
}

// ---- Bytes

static void list_bytes(zr_token_list *list)
{
    for (int byte = 0; byte < 256; byte++) {
        utf8proc_uint8_t symbol[4];
        append(list, symbol, (size_t)utf8proc_encode_char(zr_byte_symbol(byte), symbol),
               &list->tokens[byte]);
        list->kinds[byte] = ZR_TOKEN_NORMAL;
    }
    list->pre = pres[0].name; // without merges every byte is a token, wherever text is cut
}

// ---- BPE

static void list_tokens(zr_token_list *list, const zr_tokenizer *tokenizer)
{
    const zr_bpe *bpe = tokenizer->bpe;
    for (int32_t id = 0; id < tokenizer->vocabulary; id++) {
        zr_text_span span = bpe->spelled[id];
        if (!span.length)
            continue;
        append(list, bpe->text + span.at, span.length, &list->tokens[id]);
        list->kinds[id] = ZR_TOKEN_NORMAL;
    }
    for (int byte = 0; byte < 256 && list->scored; byte++)
        list->kinds[bpe->symbols[byte]] = ZR_TOKEN_BYTE;
    for (int i = 0; i < bpe->added_count; i++) {
        const zr_added_token *added = &bpe->added[i];
        append(list, added->content, strlen(added->content), &list->tokens[added->id]);
        list->kinds[added->id] = added->special ? ZR_TOKEN_CONTROL : ZR_TOKEN_ADDED;
    }
    list->unknown = bpe->unk;
    if (bpe->unk >= 0)
        list->kinds[bpe->unk] = ZR_TOKEN_UNKNOWN;
}

static int by_rank(const void *a, const void *b)
{
    return ((const zr_merge *)a)->rank - ((const zr_merge *)b)->rank;
}

// Lists all merges in order. *out (zr_free) is (*count).
static zero_status sort_merges(const zr_bpe *bpe, zr_merge **out, int32_t *count, zero_error *error)
{
    size_t slots = bpe->merges.slots ? (size_t)bpe->merges.mask + 1 : 0;
    *count = 0;
    *out = zr_alloc((slots + 1) * sizeof **out, error);
    if (!*out)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < slots; i++)
        if (bpe->merges.slots[i].left >= 0)
            (*out)[(*count)++] = bpe->merges.slots[i];
    qsort(*out, (size_t)*count, sizeof **out, by_rank);
    return ZERO_OK;
}

static void append_merge(zr_token_list *list, const zr_bpe *bpe, const zr_merge *merge)
{
    zr_text_span left = bpe->spelled[merge->left], right = bpe->spelled[merge->right], unused;
    zr_text_span *out = &list->merges[list->merge_count++];
    append(list, bpe->text + left.at, left.length, out);
    append(list, " ", 1, &unused);
    append(list, bpe->text + right.at, right.length, &unused);
    out->length = left.length + 1 + right.length;
}

static zero_status list_merges(zr_token_list *list, const zr_bpe *bpe, zero_error *error)
{
    zr_merge *merges;
    int32_t count;
    ZERO_TRY(sort_merges(bpe, &merges, &count, error));
    list->merges = zr_alloc(((size_t)count + 1) * sizeof *list->merges, error);
    for (int32_t i = 0; i < count && list->merges; i++)
        append_merge(list, bpe, &merges[i]);
    zr_free(merges);
    return list->merges ? ZERO_OK : ZERO_ERR_MEMORY;
}

static bool has_pre(const zr_bpe *bpe, const zr_token_pre *pre)
{
    int last = bpe->split_count - 1;
    return last == pre->digits && bpe->ignore_merges == pre->ignores_merges &&
           bpe->split[last].kind == ZR_SPLIT_PIECES && bpe->split[last].next == pre->pieces() &&
           (!pre->digits ||
            (bpe->split[0].kind == ZR_SPLIT_PIECES && bpe->split[0].next == zr_piece_digit));
}

static zero_status list_byte_level(zr_token_list *list, const zr_tokenizer *tokenizer,
                                   zero_error *error)
{
    const zr_bpe *bpe = tokenizer->bpe;
    for (int i = 0; i < ZR_COUNT(pres) && !list->pre; i++)
        if (has_pre(bpe, &pres[i]))
            list->pre = pres[i].name;
    if (!list->pre)
        return refuse("llama.cpp knows GPT-2's, Llama 3's, Qwen 2's and SmolLM's ways to cut text "
                      "into pieces, and this is none of them",
                      error);
    for (int i = 0; i < bpe->normal_count; i++)
        if (bpe->normal[i].kind != ZR_NORMAL_NFC)
            return refuse("its normalizer replaces text, and llama.cpp's for GPT-2's tokens does "
                          "not",
                          error);
    list_tokens(list, tokenizer);
    return list_merges(list, bpe, error);
}

// ---- SentencePiece's BPE: scores in place of merges

// Scores fall from one merged token to the next. Merges that make the same token must follow each
// other.
static zero_status score_merges(zr_token_list *list, const zr_merge *merges, int32_t count,
                                zero_error *error)
{
    int32_t last = -1, group = 0;
    for (int32_t i = 0; i < count; last = merges[i++].id) {
        if (merges[i].id == last)
            continue;
        if (list->scores[merges[i].id] != 0)
            return refuse("its merges do not follow from scores of its tokens", error);
        list->scores[merges[i].id] = (float)-++group;
    }
    for (int32_t id = 0; id < list->count; id++)
        if (list->scores[id] == 0 && list->kinds[id] == ZR_TOKEN_NORMAL)
            list->scores[id] = (float)-(group + 1);
    return group < 1 << 24 ? ZERO_OK : refuse("it has more merges than fp32 can number", error);
}

// llama.cpp merges every pair of tokens that together are one: all of them must be merges.
static zero_status check_pairs(const zr_tokenizer *tokenizer, const zr_token_list *list,
                               zero_error *error)
{
    const zr_bpe *bpe = tokenizer->bpe;
    for (int32_t id = 0; id < tokenizer->vocabulary; id++) {
        zr_text_span span = bpe->spelled[id];
        const char *text = bpe->text + span.at;
        for (uint32_t cut = 1; cut < span.length && list->kinds[id] == ZR_TOKEN_NORMAL; cut++) {
            int32_t left = zr_text_span_map_find(&bpe->ids, text, cut),
                    right = zr_text_span_map_find(&bpe->ids, text + cut, span.length - cut);
            const zr_merge *merge =
                left < 0 || right < 0 ? NULL : zr_merge_map_find(&bpe->merges, left, right);
            if (left >= 0 && right >= 0 && (!merge || merge->id != id))
                return refuse("it has two tokens that together are a third and no merge of them",
                              error);
        }
    }
    return ZERO_OK;
}

static zero_status score_tokens(zr_token_list *list, const zr_tokenizer *tokenizer,
                                zero_error *error)
{
    zr_merge *merges;
    int32_t count;
    list->scores = zr_alloc(((size_t)list->count + 1) * sizeof *list->scores, error);
    if (!list->scores)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(sort_merges(tokenizer->bpe, &merges, &count, error));
    zero_status status = score_merges(list, merges, count, error);
    zr_free(merges);
    return status == ZERO_OK ? check_pairs(tokenizer, list, error) : status;
}

static bool writes_spaces(const zr_normal_step *step)
{
    return step->kind == ZR_NORMAL_REPLACE && !strcmp(step->from, " ") &&
           !strcmp(step->to, ZR_METASPACE);
}

// Returns whether text is prepared as SentencePiece does: U+2581 for each space, and maybe one
// before the text.
static bool has_metaspaces(const zr_bpe *bpe, bool *adds_space)
{
    const zr_normal_step *normal = bpe->normal;
    const zr_split_step *split = bpe->split;
    *adds_space = bpe->normal_count == 2 && normal[0].kind == ZR_NORMAL_PREPEND &&
                  !strcmp(normal[0].to, ZR_METASPACE);
    if (bpe->normal_count == 1 + *adds_space && writes_spaces(&normal[*adds_space]))
        return bpe->split_count == 0;
    *adds_space = bpe->split_count == 1 && split[0].prefix != ZR_PREFIX_NEVER;
    return bpe->normal_count == 0 && bpe->split_count == 1 && split[0].kind == ZR_SPLIT_METASPACE &&
           !strcmp(split[0].space, ZR_METASPACE) && (!split[0].splits || bpe->words_apart);
}

static zero_status list_scored(zr_token_list *list, const zr_tokenizer *tokenizer,
                               zero_error *error)
{
    const zr_bpe *bpe = tokenizer->bpe;
    if (bpe->unigram)
        return refuse("it is a Unigram model; BPE is built", error);
    if (bpe->rules)
        return refuse("its normalizer follows SentencePiece's rules, which llama.cpp's does not",
                      error);
    list->scored = list->byte_fallback = true;
    for (int byte = 0; byte < 256; byte++)
        if (!bpe->byte_fallback || bpe->symbols[byte] < 0)
            return refuse("llama.cpp needs byte fallback with all 256 tokens, or byte-level tokens",
                          error);
    if (bpe->ignore_merges || !has_metaspaces(bpe, &list->adds_space))
        return refuse("text is not prepared as SentencePiece prepares it", error);
    list_tokens(list, tokenizer);
    return score_tokens(list, tokenizer, error);
}

// ---- Both

// Finds the ids that are put around a text: llama.cpp puts the begin and the end token, or nothing.
static zero_status find_around(zr_token_list *list, const zr_tokenizer *tokenizer,
                               zero_error *error)
{
    const int32_t *before, *after;
    int before_count, after_count;
    zr_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count);
    list->adds_begin = before_count > 0;
    list->adds_end = after_count > 0;
    if (before_count)
        list->begin = before[0];
    if (after_count)
        list->end = after[0];
    bool usual = before_count <= 1 && after_count <= 1;
    return usual ? ZERO_OK
                 : refuse("it puts other tokens around a text than one that begins and one that "
                          "ends it",
                          error);
}

static zero_status find_ends(zr_token_list *list, const zr_tokenizer *tokenizer, zero_error *error)
{
    bool bytes = tokenizer->ops->kind == ZR_TOKENIZER_BYTES;
    list->begin = zr_tokenizer_begin(tokenizer);
    list->end = zr_tokenizer_end(tokenizer);
    ZERO_TRY(find_around(list, tokenizer, error));
    const int32_t named[] = {list->begin, list->end};
    for (int i = 0; i < ZR_COUNT(named); i++)
        if (named[i] >= 0 && list->kinds[named[i]] == ZR_TOKEN_NORMAL)
            list->kinds[named[i]] = ZR_TOKEN_CONTROL;
    if (list->end < 0)
        list->end = bytes ? 0 : tokenizer->bpe->symbols[0];
    if (list->begin < 0)
        list->begin = list->end;
    return list->end >= 0 ? ZERO_OK : refuse("it has no token that ends a text", error);
}

static void name_unused(zr_token_list *list)
{
    char name[32];
    for (int32_t id = 0; id < list->count; id++) {
        if (list->kinds[id])
            continue;
        int length = snprintf(name, sizeof name, "[PAD%d]", (int)id);
        append(list, name, (size_t)length, &list->tokens[id]);
        list->kinds[id] = ZR_TOKEN_UNUSED;
    }
}

static zero_status list_kind(const zr_tokenizer *tokenizer, zr_token_list *out, zero_error *error)
{
    if (!tokenizer->bpe) {
        list_bytes(out);
        return ZERO_OK;
    }
    return tokenizer->bpe->byte_level ? list_byte_level(out, tokenizer, error)
                                      : list_scored(out, tokenizer, error);
}

static zero_status list_all(const zr_tokenizer *tokenizer, zr_token_list *out, zero_error *error)
{
    ZERO_TRY(reserve(out, out->count, error));
    ZERO_TRY(list_kind(tokenizer, out, error));
    ZERO_TRY(find_ends(out, tokenizer, error));
    name_unused(out);
    return out->text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a tokenizer's tokens")
                            : ZERO_OK;
}

zero_status zr_token_list_of(const zr_tokenizer *tokenizer, int64_t count, zr_token_list *out,
                             zero_error *error)
{
    *out = (zr_token_list){.begin = -1, .end = -1, .unknown = -1, .count = (int32_t)count};
    if (tokenizer->ops->kind == ZR_TOKENIZER_CHARS)
        return refuse("all tokens of \"chars\" are characters, and llama.cpp would take one of "
                      "them for the end of a text",
                      error);
    if (tokenizer->vocabulary > count || count > INT32_MAX)
        return zr_fail(error, ZERO_ERR_DATA,
                       "the tokenizer has ids up to %d, and the model's vocabulary has %lld",
                       (int)tokenizer->vocabulary - 1, (long long)count);
    zero_status status = list_all(tokenizer, out, error);
    if (status != ZERO_OK)
        zr_token_list_free(out);
    return status;
}

void zr_token_list_free(zr_token_list *list)
{
    zr_buffer_free(&list->text);
    zr_free(list->tokens);
    zr_free(list->kinds);
    zr_free(list->scores);
    zr_free(list->merges);
    *list = (zr_token_list){0};
}
