// What libzero knows of this machine's speed, from which it predicts steps.
#include "predict/rates.h"
#include "commands/doctor_report.h"

#include <stdio.h>
#include <string.h>

// Passes a warning on as a line of its own.
static void say_warning(void *user, zero_log_level level, const char *message)
{
    zr_doctor_say(user, "", "%s", message);
}

// Writes each line of the book.
static void say_book(const zr_doctor *doctor, const zr_rate_book *book)
{
    zr_buffer text = {0};
    zr_rate_book_text(book, &text);
    for (const char *line = text.failed ? "" : text.data; line && *line;) {
        int length = (int)strcspn(line, "\n");
        zr_doctor_say(doctor, "", "%.*s", length, line);
        line += length + (line[length] == '\n');
    }
    zr_buffer_free(&text);
}

void zr_doctor_rates(const zr_doctor *doctor)
{
    zr_rate_book book;
    zero_error error = {0};
    char *file = NULL;
    const zero_logger logger = {.write = say_warning, .user = (void *)doctor};
    if (zr_rate_book_file(&file, &error) != ZERO_OK) {
        zr_doctor_say(doctor, "rates", "%s", error.message);
        return;
    }
    zr_doctor_say(doctor, "rates", "by which steps are predicted, in \"%s\":", file);
    zr_rate_book_read(&logger, &book);
    say_book(doctor, &book);
    if (!zr_rate_book_knows_kernels(&book))
        zr_doctor_say(doctor, "", "no kernels yet; zero train fills them, unless --no-learn");
    zr_rate_book_free(&book);
    zr_free(file);
}
