#include "infer/generate_turns.h"

#include "base/json.h"
#include "comm/agreement.h"

#include <string.h>

typedef struct conversation {
    const zr_spoken_turns *turns;
    json_t *messages; // said so far
    zr_buffer answer; // the one that is being generated
} conversation;

// Keeps what is emitted, which the next prompt repeats.
static int keep_and_emit(void *user, int64_t prompt, const char *text, size_t length)
{
    conversation *c = user;
    zr_buffer_append(&c->answer, text, length);
    return c->turns->sink.emit(c->turns->sink.user, prompt, text, length);
}

static void finish_turn(void *user, int64_t prompt, zero_finish why, int64_t tokens)
{
    const conversation *c = user;
    if (c->turns->sink.finish)
        c->turns->sink.finish(c->turns->sink.user, prompt, why, tokens);
}

// Adds what somebody has said.
static zero_status add_message(conversation *c, const char *role, const char *text, size_t length,
                               zero_error *error)
{
    json_t *content = json_stringn(text, length);
    if (!content)
        return zr_fail(error, ZERO_ERR_DATA, "message %zu: no UTF-8, which a message must be",
                       json_array_size(c->messages));
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    return message && !json_array_append_new(c->messages, message)
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_MEMORY, "no memory for a message");
}

// Asks what comes next. *out has no prompt if there is nothing.
static zero_status ask_next(conversation *c, zr_prompts *out, zero_error *error)
{
    const zr_spoken_turns *t = c->turns;
    const char *text = "";
    zero_turn turn = t->ask(t->sink.user, &text);
    if (turn == ZERO_TURN_END)
        return zr_prompts_encode(t->tokenizer, NULL, NULL, 0, out, error);
    if (turn == ZERO_TURN_ANEW)
        json_array_clear(c->messages);
    ZERO_TRY(add_message(c, "user", text, strlen(text), error));
    return zr_prompts_encode_turns(t->tokenizer, t->chat, c->messages, out, error);
}

static zero_status answer_prompt(zero_comm *comm, conversation *c, const zr_prompts *prompts,
                                 int64_t turn, zero_error *error)
{
    const zr_spoken_turns *t = c->turns;
    zr_sampling how = t->how;
    zr_sample_sink sink = {
        .emit = keep_and_emit, .finish = finish_turn, .user = c, .together = t->sink.together};
    how.prompts = prompts;
    how.seed += (uint64_t)turn;
    c->answer.length = 0;
    zr_buffer_append(&c->answer, "", 0);
    ZERO_TRY(
        zr_comm_agree(comm, zr_generate_check_memory(t->engine, t->config, &how, error), error));
    ZERO_TRY(zr_generate_loop(t->engine, t->config, t->tokenizer, &how, &sink, error));
    if (c->answer.failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for an answer of %zu bytes",
                       c->answer.length);
    return comm->rank == 0 ? add_message(c, "assistant", c->answer.data, c->answer.length, error)
                           : ZERO_OK;
}

static zero_status take_turn(zero_comm *comm, conversation *c, int64_t turn, bool *more,
                             zero_error *error)
{
    zr_prompts prompts = {0};
    zr_ids none = {0};
    zero_status status =
        zr_comm_agree(comm, comm->rank == 0 ? ask_next(c, &prompts, error) : ZERO_OK, error);
    if (status == ZERO_OK)
        status = zr_prompts_share(comm, &prompts, &none, error);
    *more = prompts.count > 0;
    if (status == ZERO_OK && *more)
        status = answer_prompt(comm, c, &prompts, turn, error);
    zr_prompts_free(&prompts);
    zr_ids_free(&none);
    return status;
}

zero_status zr_generate_turns(zero_comm *comm, const zr_spoken_turns *turns, zero_error *error)
{
    conversation c = {.turns = turns, .messages = json_array()};
    zero_status status =
        c.messages ? ZERO_OK : zr_fail(error, ZERO_ERR_MEMORY, "no memory for a conversation");
    bool more = true;
    for (int64_t turn = 0; status == ZERO_OK && more; turn++)
        status = take_turn(comm, &c, turn, &more, error);
    json_decref(c.messages);
    zr_buffer_free(&c.answer);
    return status;
}
