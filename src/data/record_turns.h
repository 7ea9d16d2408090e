// Messages as chat templates take them ({"role": ..., "content": ...}), made of what records have.
#ifndef ZR_DATA_RECORD_TURNS_H
#define ZR_DATA_RECORD_TURNS_H

#include "base/json.h"

// All of these append to the array `messages`; `name` ("FILE:LINE") begins the messages of errors.

// Appends a list of messages. Those of ShareGPT, {"from": "human", "value": ...}, get a role and a
// content by LLaMA-Factory's rules; all others, and other keys, stay as they are. ZERO_ERR_DATA for
// a value of "from" that is not known, and for a call of functions that is no JSON.
zero_status zr_turns_add_list(json_t *messages, const json_t *list, const char *name,
                              zero_error *error);
zero_status zr_turns_add(json_t *messages, const char *role, const char *text, size_t length,
                         const char *name, zero_error *error);
// Appends the earlier turns of a record: [["question", "answer"], ...].
zero_status zr_turns_add_history(json_t *messages, const json_t *history, const char *name,
                                 zero_error *error);
// Checks such a list, and gives one text of it.
zero_status zr_turns_check_history(const json_t *history, const char *name, zero_error *error);
const json_t *zr_turns_of_history(const json_t *history, size_t turn, bool answer);

// Gives the tools as a list of {"type": "function", "function": {...}}, which the caller owns. They
// may be written as a text of JSON, and without that frame, as LLaMA-Factory has them. *out is NULL
// if there are none.
zero_status zr_turns_tools(const json_t *tools, const char *name, json_t **out, zero_error *error);

#endif
