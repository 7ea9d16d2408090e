// Fine-tuning by low-rank adapters: reads a model in Hugging Face's layout and conversations,
// trains adapters of all its linear layers, and lets the model answer with them.
//
//   build/examples/finetune MODEL DATA OUT QUESTION
#include <stdio.h>
#include <zero/zero.h>

static int write_answer(void *user, int64_t prompt, const char *text, size_t length)
{
    return fwrite(text, 1, length, stdout) != length;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return fprintf(stderr, "usage: finetune MODEL DATA OUT QUESTION\n"), 64;
    zero_comm *comm = NULL;
    zero_error error = {0};
    const zero_override adapters = {"libzero.lora", "r=8,alpha=16,dropout=0.05", "finetune"};
    const zero_train_options train = {.struct_size = sizeof train,
                                      .model_dir = argv[1],
                                      .data = (const char *const[]){argv[2]},
                                      .data_count = 1,
                                      .val = "none",
                                      .out_dir = argv[3],
                                      .epochs = 3,
                                      .seed = -1,
                                      .overrides = &adapters,
                                      .override_count = 1};
    const zero_generate_options answer = {.struct_size = sizeof answer,
                                          .model_dir = argv[1],
                                          .adapter = argv[3], // the run's
                                          .prompts = (const char *const[]){argv[4]},
                                          .prompt_count = 1,
                                          .chat = "auto",
                                          .tokens = 64,
                                          .top_p = 1,
                                          .emit = write_answer};
    if (zero_comm_self(&comm, &error) != ZERO_OK || zero_train(comm, &train, &error) != ZERO_OK ||
        zero_generate(&answer, &error) != ZERO_OK)
        fprintf(stderr, "finetune: %s\n", error.message);
    zero_comm_destroy(comm);
    return error.status ? zero_status_exit_code(error.status) : 0;
}
