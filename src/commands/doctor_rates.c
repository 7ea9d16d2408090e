// What libzero knows of this machine's speed, from which it predicts steps.
#include "predict/rates.h"
#include "commands/doctor_report.h"

// Passes a warning on as a line of its own.
static void report_warning(void *user, zero_log_level level, const char *message)
{
    zr_report_begin(user, NULL);
    ZR_SENTENCE(user, "", "{message}", zr_text(message));
    zr_report_end(user);
}

static void report_book(zr_report *r)
{
    zr_rate_book book;
    const zero_logger logger = {.write = report_warning, .user = r};
    zr_report_begin_list(r, "warnings");
    zr_rate_book_read(&logger, &book);
    zr_report_end(r);
    zr_rate_book_report(&book, r);
    if (!zr_rate_book_knows_kernels(&book))
        zr_report_line(r, "", "no kernels yet; zero train fills them, unless --no-learn");
    zr_rate_book_free(&book);
}

void zr_doctor_rates(zr_doctor *doctor)
{
    zr_report *r = doctor->report;
    zero_error error = {0};
    char *file = NULL;
    zr_report_begin(r, "rates");
    if (zr_rate_book_file(&file, &error) == ZERO_OK) {
        ZR_SENTENCE(r, "rates", "by which steps are predicted, in \"{file}\":", zr_text(file));
        report_book(r);
    } else {
        ZR_SENTENCE(r, "rates", "{error}", zr_text(error.message));
    }
    zr_report_end(r);
    zr_free(file);
}
