// A first program: one rank trains a small GPT-2 on a text of your own, or trains a model further
// that is there.
//
//   build/examples/first OUT STEPS TEXT [MODEL]     then build/zero generate --model OUT
#include <stdio.h>
#include <stdlib.h>
#include <zero/zero.h>

static int tell(void *user, const zero_event *event)
{
    if (event->kind == ZERO_EVENT_STEP)
        printf("step %lld: loss %.4f\n", (long long)event->step, event->loss);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "usage: first OUT STEPS TEXT [MODEL]\n"), 64;
    zero_comm *comm = NULL;
    zero_error error = {0};
    zero_train_options options = {
        .struct_size = sizeof options,
        .out_dir = argv[1],
        .steps = atoll(argv[2]),
        .data = (const char *const[]){argv[3]},
        .data_count = 1,
        .new_spec = argc > 4 ? NULL : "gpt2:layers=2,heads=4,width=64,context=32",
        .model_dir = argc > 4 ? argv[4] : NULL,
        .seed = -1, // the usual one
        .progress = tell,
    };
    if (zero_comm_self(&comm, &error) != ZERO_OK || zero_train(comm, &options, &error) != ZERO_OK)
        fprintf(stderr, "first: %s\n", error.message);
    zero_comm_destroy(comm);
    return error.status ? zero_status_exit_code(error.status) : 0;
}
