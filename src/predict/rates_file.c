// The user's file of rates: one for each processor, because machines of several kinds may share a
// home directory. It is read as a whole and replaced as a whole, under the lock of its
// directory, so that runs which end together lose nothing.
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "predict/rates.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#define WHAT "measured rates"
#define BANDWIDTHS "bandwidth.json" // of earlier versions, all processors together

enum { MOST_BYTES = 16 << 20, MOST_PROCESSOR = 128 };

// How often the lock is tried, and the pause between tries. It is held while a file is written.
enum { TRIES = 100 };
static const double BETWEEN_TRIES = 0.02; // seconds

// Adds what earlier versions kept apart, so that it goes into the book's file when that is written.
static zero_status add_earlier_bandwidths(zr_rate_book *out, zero_error *error)
{
    char processor[MOST_PROCESSOR], *file = NULL;
    if (zr_user_cache_file(BANDWIDTHS, WHAT, &file, NULL) != ZERO_OK)
        return ZERO_OK;
    zr_cpu_model(processor, sizeof processor);
    zero_status status =
        zr_path_exists(file) ? zr_rate_book_add_bandwidths(out, file, processor, error) : ZERO_OK;
    zr_free(file);
    return status;
}

// Reads a file, which is empty if there is none.
static zero_status read_rates_file(const char *file, zr_rate_book *out, zero_error *error)
{
    char processor[MOST_PROCESSOR], *text = NULL;
    size_t length = 0;
    *out = (zr_rate_book){0};
    if (!zr_path_exists(file))
        return ZERO_OK;
    ZERO_TRY(zr_file_read(file, MOST_BYTES, &text, &length, error));
    zr_cpu_model(processor, sizeof processor);
    zero_status status = zr_rate_book_parse(text, length, file, processor, out, error);
    zr_free(text);
    return status;
}

static void read_or_warn(const char *file, const zero_logger *logger, zr_rate_book *out)
{
    zero_error error = {0};
    if (read_rates_file(file, out, &error) != ZERO_OK)
        zr_log(logger, ZERO_LOG_WARNING, WHAT " are not used: %s", error.message);
    if (add_earlier_bandwidths(out, &error) != ZERO_OK)
        zr_log(logger, ZERO_LOG_WARNING, WHAT " are not used: %s", error.message);
}

// Makes the name of the file of a processor: its letters and digits, words with "-" between them.
static void name_file_of_processor(const char *processor, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "rates");
    bool begins = true;
    for (const char *c = processor; *c && length + sizeof "-x.json" <= size; c++) {
        if (!isalnum((unsigned char)*c)) {
            begins = true;
            continue;
        }
        if (begins)
            out[length++] = '-';
        out[length++] = (char)tolower((unsigned char)*c);
        begins = false;
    }
    snprintf(out + length, size - length, ".json");
}

zero_status zr_rate_book_file(char **file, zero_error *error)
{
    char processor[MOST_PROCESSOR], name[2 * MOST_PROCESSOR];
    zr_cpu_model(processor, sizeof processor);
    name_file_of_processor(processor, name, sizeof name);
    return zr_user_cache_file(name, WHAT, file, error);
}

void zr_rate_book_read(const zero_logger *logger, zr_rate_book *out)
{
    char *file = NULL;
    *out = (zr_rate_book){0};
    // If there is no place for the file, nothing has been measured.
    if (zr_rate_book_file(&file, NULL) == ZERO_OK)
        read_or_warn(file, logger, out);
    zr_free(file);
}

// Waits for a while for the lock of a directory.
static zero_status wait_for_directory_lock(const char *directory, int *fd, zero_error *error)
{
    zero_status status = ZERO_OK;
    for (int i = 0; i < TRIES; i++) {
        status = zr_directory_lock(directory, fd, error);
        if (status != ZERO_ERR_USAGE)
            break;
        zr_sleep_seconds(BETWEEN_TRIES);
    }
    return status;
}

static zero_status write_rates_file(const char *file, const zr_rate_book *book, zero_error *error)
{
    char processor[MOST_PROCESSOR];
    zr_buffer text = {0};
    zr_cpu_model(processor, sizeof processor);
    zr_rate_book_json(book, processor, &text);
    return zr_file_write_text(file, &text, error);
}

// Merges into the contents of the file. A damaged one was reported when the run read it.
static zero_status merge_into_file(const char *file, const zr_rate_book *from, zero_error *error)
{
    zr_rate_book book;
    read_or_warn(file, NULL, &book);
    zero_status status = zr_rate_book_merge(&book, from, error);
    if (status == ZERO_OK)
        status = write_rates_file(file, &book, error);
    zr_rate_book_free(&book);
    return status;
}

static zero_status merge_under_lock(const char *file, const zr_rate_book *from, zero_error *error)
{
    int fd = -1;
    ZERO_TRY(zr_user_cache_reserve(file, error));
    char *directory = zr_path_parent(file, error);
    if (!directory)
        return ZERO_ERR_MEMORY;
    zero_status status = wait_for_directory_lock(directory, &fd, error);
    zr_free(directory);
    if (status != ZERO_OK)
        return status;
    status = merge_into_file(file, from, error);
    close(fd);
    return status;
}

bool zr_rate_book_keep(const zr_rate_book *from, const zero_logger *logger)
{
    char *file = NULL;
    zero_error error = {0};
    zero_status status = zr_rate_book_file(&file, &error);
    if (status == ZERO_OK)
        status = merge_under_lock(file, from, &error);
    if (status != ZERO_OK)
        zr_log(logger, ZERO_LOG_WARNING, WHAT " are not kept: %s", error.message);
    zr_free(file);
    return status == ZERO_OK;
}

void zr_storage_keep(const char *directory, const zr_storage_rates *measured,
                     const zero_logger *logger, char **file)
{
    zr_storage_rates row, rates = *measured;
    zero_error error = {0};
    *file = NULL;
    zero_status status = zr_storage_name(directory, &row, &error);
    if (status != ZERO_OK) {
        zr_log(logger, ZERO_LOG_WARNING, WHAT " are not kept: %s", error.message);
        return;
    }
    memcpy(rates.host, row.host, sizeof rates.host);
    memcpy(rates.disk, row.disk, sizeof rates.disk);
    rates.measured = row.measured;
    const zr_rate_book found = {.storage = &rates,
                                .storage_count = 1,
                                .read = rates.read,
                                .write = rates.write,
                                .mix = rates.mix};
    if (zr_rate_book_keep(&found, logger))
        zr_rate_book_file(file, NULL);
}
