// The formats that --chat names, as templates. They write what the templates of the same families
// write, without a system message of their own (but for Llama 3.1's dates) and without tools.
#include "chat/chat_internal.h"

#include <string.h>

#define CHATML                                                                                     \
    "{%- for message in messages %}\n"                                                             \
    "    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}\n" \
    "{%- endfor %}\n"                                                                              \
    "{%- if add_generation_prompt %}\n"                                                            \
    "    {{- '<|im_start|>assistant\\n' }}\n"                                                      \
    "{%- endif %}\n"

// Sets `turns` to the messages after an optional system message, whose text is `system`.
#define TAKE_SYSTEM                                                                                \
    "{%- set system = none %}\n"                                                                   \
    "{%- set turns = messages %}\n"                                                                \
    "{%- if messages[0]['role'] == 'system' %}\n"                                                  \
    "    {%- set system = messages[0]['content'] %}\n"                                             \
    "    {%- set turns = messages[1:] %}\n"                                                        \
    "    {%- if not turns %}\n"                                                                    \
    "        {{- raise_exception('a system message alone') }}\n"                                   \
    "    {%- endif %}\n"                                                                           \
    "{%- endif %}\n"

// Within the loop over messages that `first` says: checks that user and assistant take turns.
#define TAKE_TURNS(after)                                                                          \
    "    {%- if message['role'] != ('user' if loop.index0 % 2 == 0 else 'assistant') %}\n"         \
    "        {{- raise_exception('message ' ~ loop.index0 ~ " after                                \
    "' is of the role \"' ~ message['role'] ~ '\": user and assistant must take turns') }}\n"      \
    "    {%- endif %}\n"

#define LLAMA2                                                                                     \
    TAKE_SYSTEM "{%- for message in turns %}\n" TAKE_TURNS(                                        \
        "(' after the system message' if system is not none else '') ~ ") "    {%- if "            \
                                                                          "message['role'] == "    \
                                                                          "'user' %}\n"            \
                                                                          "        {%- set text "  \
                                                                          "= message['content'] "  \
                                                                          "%}\n"                   \
                                                                          "        {%- if "        \
                                                                          "loop.first and system " \
                                                                          "is not none %}\n"       \
                                                                          "            {%- set "   \
                                                                          "text = '<<SYS>>\\n' + " \
                                                                          "system + "              \
                                                                          "'\\n<</SYS>>\\n\\n' + " \
                                                                          "text %}\n"              \
                                                                          "        {%- endif %}\n" \
                                                                          "        {{- bos_token " \
                                                                          "~ '[INST] ' ~ "         \
                                                                          "text.strip() ~ ' "      \
                                                                          "[/INST]' }}\n"          \
                                                                          "    {%- else %}\n"      \
                                                                          "        {{- ' ' ~ "     \
                                                                          "message['content']."    \
                                                                          "strip() ~ ' ' ~ "       \
                                                                          "eos_token }}\n"         \
                                                                          "    {%- endif %}\n"     \
                                                                          "{%- endfor %}\n"

#define LLAMA3_TURNS(messages)                                                                     \
    "{%- for message in " messages " %}\n"                                                         \
    "    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}\n"             \
    "    {{- message['content'] | trim + '<|eot_id|>' }}\n"                                        \
    "{%- endfor %}\n"                                                                              \
    "{%- if add_generation_prompt %}\n"                                                            \
    "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"                           \
    "{%- endif %}\n"

#define LLAMA31                                                                                    \
    TAKE_SYSTEM                                                                                    \
    "{{- bos_token }}\n"                                                                           \
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}\n"                                  \
    "{{- 'Cutting Knowledge Date: December 2023\\nToday Date: 26 Jul 2024\\n\\n' }}\n"             \
    "{{- (system or '') | trim + '<|eot_id|>' }}\n" LLAMA3_TURNS("turns")

#define MISTRAL(after)                                                                             \
    "{{- bos_token }}\n"                                                                           \
    "{%- for message in messages %}\n" TAKE_TURNS(                                                 \
        "") "    {%- if message['role'] == 'user' %}\n"                                            \
            "        {{- '[INST] ' + message['content'] + ' [/INST]' }}\n"                         \
            "    {%- else %}\n"                                                                    \
            "        {{- message['content'] ~ eos_token" after " }}\n"                             \
            "    {%- endif %}\n"                                                                   \
            "{%- endfor %}\n"

#define MISTRAL_2024                                                                               \
    TAKE_SYSTEM                                                                                    \
    "{{- bos_token }}\n"                                                                           \
    "{%- for message in turns %}\n" TAKE_TURNS("(' after the system message' if system is "        \
                                               "not none else '') ~ ") "    {%- if "               \
                                                                       "message['role'] == "       \
                                                                       "'user' and "               \
                                                                       "loop.first and "           \
                                                                       "system is not none "       \
                                                                       "%}\n"                      \
                                                                       "        {{- ' [INST] "     \
                                                                       "' + system + "             \
                                                                       "'\\n\\n' + "               \
                                                                       "message['content'] + "     \
                                                                       "' [/INST]' }}\n"           \
                                                                       "    {%- elif "             \
                                                                       "message['role'] == "       \
                                                                       "'user' %}\n"               \
                                                                       "        {{- ' [INST] "     \
                                                                       "' + "                      \
                                                                       "message['content'] + "     \
                                                                       "' [/INST]' }}\n"           \
                                                                       "    {%- else %}\n"         \
                                                                       "        {{- ' ' + "        \
                                                                       "message['content'] ~ "     \
                                                                       "eos_token }}\n"            \
                                                                       "    {%- endif %}\n"        \
                                                                       "{%- endfor %}\n"

static const zr_chat_format formats[] = {
    {"chatml", CHATML, "<s>", "</s>"},
    {"llama2", LLAMA2, "<s>", "</s>"},
    {"llama3", "{{- bos_token }}\n" LLAMA3_TURNS("messages"), "<|begin_of_text|>", "<|eot_id|>"},
    {"llama3.1", LLAMA31, "<|begin_of_text|>", "<|eot_id|>"},
    {"mistral", MISTRAL(""), "<s>", "</s>"},
    {"mistral-spaced", MISTRAL(" ~ ' '"), "<s>", "</s>"},
    {"mistral-2024", MISTRAL_2024, "<s>", "</s>"},
};

const zr_chat_format *zr_chat_format_find(const char *name)
{
    for (int i = 0; i < ZR_COUNT(formats); i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    return NULL;
}

const char *zr_chat_format_at(int i) { return i < ZR_COUNT(formats) ? formats[i].name : NULL; }
