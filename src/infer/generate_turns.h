// A conversation that a person leads: each message is answered as the continuation of all before.
#ifndef ZR_INFER_GENERATE_TURNS_H
#define ZR_INFER_GENERATE_TURNS_H

#include "chat/chat.h"
#include "infer/generate_loop.h"

typedef struct zr_spoken_turns {
    zero_engine *engine;
    const zr_lm_config *config;
    const zr_tokenizer *tokenizer;
    const zr_chat *chat; // rank 0 alone needs it
    zr_sampling how;     // of each answer; its prompts are not read
    zr_sample_sink sink;
    zero_turn (*ask)(void *user, const char **text); // called on rank 0 with sink.user
} zr_spoken_turns;

// Asks and answers until there is nothing more to say. Collective over comm.
zero_status zr_generate_turns(zero_comm *comm, const zr_spoken_turns *turns, zero_error *error);

#endif
