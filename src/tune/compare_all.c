// zero compare: every way to share a training among ranks, planned, predicted and measured.
#include "tune/comparison.h"

#include "base/errors.h"
#include "base/file.h"
#include <zero/comm.h>

enum { MOST_STEPS = ZR_TRIAL_STEPS / ZR_COMPARE_ROUNDS - ZR_COMPARE_SKIPPED };

static zero_status check_compare_options(const zero_compare_options *options, zero_error *error)
{
    if (!options->new_spec == !options->model)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_compare: exactly one of options.new_spec and options.model must be "
                       "given");
    if (options->data_count < 0 || (options->data_count > 0 && !options->data))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_compare: options.data is NULL, and options.data_count is %d",
                       options->data_count);
    if (options->ranks < 0 || options->ranks == 1 || options->ranks > ZERO_MAX_RANKS)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a comparison needs 2 to %d ranks, because its ways differ in what ranks "
                       "share; %d are asked for",
                       ZERO_MAX_RANKS, options->ranks);
    if (options->steps < 0 || options->steps > MOST_STEPS)
        return zr_fail(error, ZERO_ERR_USAGE, "a round measures 1 to %d steps, not %d", MOST_STEPS,
                       options->steps);
    if (options->threads < 0 || options->memory < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_compare: options.threads and options.memory cannot be negative");
    return zr_trial_check_alone("zero compare", error);
}

static zero_status plan_all_ways(zr_comparison *c, zero_error *error)
{
    zr_compare_choose_family(c);
    for (int i = 0; i < c->count; i++) {
        zr_log(&c->options->logger, ZERO_LOG_INFO, "planning: %s", c->rows[i].way.name);
        ZERO_TRY(zr_compare_plan(c, &c->rows[i], error));
        zr_compare_find_largest(c, &c->rows[i]);
        if (c->options->stop && *c->options->stop)
            return zr_fail(error, ZERO_ERR_CANCELLED, "stopped by signal %d", *c->options->stop);
    }
    return ZERO_OK;
}

static zero_status publish_comparison(const zr_comparison *c,
                                      void (*write)(void *user, const char *text), void *user,
                                      zero_error *error)
{
    zr_buffer text = {0}, json = {0};
    zero_status status = ZERO_OK;
    zr_compare_text(c, &text);
    zr_compare_json(c, &json);
    if (text.failed || json.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of the comparison");
    if (status == ZERO_OK && c->options->path)
        status = zr_file_write_durable(c->options->path, text.data, text.length, error);
    if (status == ZERO_OK)
        write(user, c->options->json ? json.data : text.data);
    zr_buffer_free(&text);
    zr_buffer_free(&json);
    return status;
}

static bool has_measured(const zr_comparison *c)
{
    for (int i = 0; i < c->count; i++)
        if (c->rows[i].measured.count)
            return true;
    return false;
}

// What was measured before a signal is an answer, too.
static zero_status compare_and_publish(zr_comparison *c,
                                       void (*write)(void *user, const char *text), void *user,
                                       zero_error *error)
{
    ZERO_TRY(plan_all_ways(c, error));
    zero_status status = zr_compare_measure(c, error);
    c->stopped = status == ZERO_ERR_CANCELLED;
    if (status == ZERO_OK)
        return publish_comparison(c, write, user, error);
    if (c->stopped && has_measured(c))
        ZERO_TRY(publish_comparison(c, write, user, error));
    return status;
}

zero_status zero_compare(const zero_compare_options *options,
                         void (*write)(void *user, const char *text), void *user, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    ZERO_TRY(check_compare_options(options, error));
    zr_comparison *c = zr_alloc(sizeof *c, error);
    if (!c)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_comparison_open(options, c, error);
    if (status == ZERO_OK)
        status = compare_and_publish(c, write, user, error);
    zr_comparison_close(c);
    zr_free(c);
    return status;
}
