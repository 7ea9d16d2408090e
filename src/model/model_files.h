// The files of a model's directory as Hugging Face names them. The tokenizer's files are listed in
// tokenizer/tokenizer_files.c.
#ifndef ZR_MODEL_MODEL_FILES_H
#define ZR_MODEL_MODEL_FILES_H

#define ZR_MODEL_CONFIG "config.json"
#define ZR_GENERATION_CONFIG "generation_config.json"
#define ZR_CHAT_TEMPLATE "chat_template.jinja"
#define ZR_MODEL_WEIGHTS "model.safetensors"
#define ZR_MODEL_INDEX "model.safetensors.index.json" // of weights in several files

#endif
