// JSON records of every shape, read as text, for their answers and with their labels, in lines and
// arrays: every part of a document is inside it, and records are counted ahead as they are read.
#include "fuzz.h"

#include "data/jsonl_records.h"

#include <string.h>

static void check(const zr_document *document)
{
    size_t begin = 0;
    for (int i = 0; i < document->count; i++) {
        fuzz_must(document->segments[i].end >= begin &&
                  document->segments[i].end <= document->text.length);
        begin = document->segments[i].end;
    }
}

static void check_label(const zr_record_label *label, bool read)
{
    fuzz_must(memchr(label->text, 0, sizeof label->text) && (*label->text != 0) == read);
}

static zero_status read_all(const char *text, size_t size, const zr_chat *chat,
                            zr_preferences preferences, bool classifies, zero_error *error)
{
    zr_records records = zr_records_of("x.jsonl", text, size);
    records.chat = chat;
    records.preferences = preferences;
    records.classifies = classifies;
    zr_text_record record = {.ends = false};
    zero_status status = ZERO_OK;
    zr_records ahead = records;
    int64_t lines = zr_records_skip(&ahead, size / 2);
    lines += zr_records_skip(&ahead, SIZE_MAX);
    fuzz_must(lines >= 0 && ahead.split.at == size);
    for (bool more = true; more && status == ZERO_OK;) {
        status = zr_records_next(&records, &record, &more, error);
        if (status == ZERO_OK && record.document.text.failed) // the encoder sees that
            status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for a document");
        if (status == ZERO_OK && more) {
            check(&record.document);
            check(&record.rejected);
            fuzz_must(!record.rejected.text.length || record.pair);
            check_label(&record.label, classifies);
            fuzz_must(record.document.text.length && records.seen <= lines &&
                      records.empty < records.seen && records.split.at <= size);
        }
    }
    fuzz_must(status != ZERO_OK || (records.seen == lines && records.split.at == size));
    zr_text_record_free(&record);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    static const char *const formats[] = {"chatml", "llama2", "llama3", "mistral", NULL};
    zr_chat chat;
    const char *format = formats[size % ZR_COUNT(formats)];
    ZERO_TRY(zr_chat_load(NULL, format, NULL, &chat, error));
    read_all((const char *)data, size, &chat, ZR_PREFERENCES_NONE, true, NULL);
    zero_status status = ZERO_OK; // of the last: most texts have only one of these records
    for (int what = ZR_PREFERENCES_LABELS; what >= ZR_PREFERENCES_NONE; what--)
        status = read_all((const char *)data, size, &chat, (zr_preferences)what, false,
                          what ? NULL : error);
    zr_chat_free(&chat);
    return status;
}
