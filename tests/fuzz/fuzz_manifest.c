// A checkpoint's manifest. The input is everything before the hash, and the hash is appended to it,
// because a wrong hash would be refused before anything else is read (another test covers that). A
// manifest that is accepted is written to one that is accepted.
#include "fuzz.h"

#include "base/random.h"
#include "formats/manifest.h"

static zero_status read_again(const zr_manifest *manifest, zero_error *error)
{
    zr_manifest again;
    zr_buffer text = {0};
    zr_manifest_write(manifest, &text);
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a manifest") : ZERO_OK;
    if (status == ZERO_OK) {
        fuzz_put(ZR_MANIFEST, text.data, text.length);
        status = zr_manifest_read(fuzz_directory(), &again, error);
    }
    zr_buffer_free(&text);
    fuzz_must(status == ZERO_OK || status == ZERO_ERR_MEMORY);
    if (status == ZERO_OK) {
        fuzz_must(again.file_count == manifest->file_count);
        zr_manifest_free(&again);
    }
    return status;
}

static zero_status read_manifest(zero_error *error)
{
    zr_manifest manifest;
    ZERO_TRY(zr_manifest_read(fuzz_directory(), &manifest, error));
    for (int f = 0; f < manifest.file_count; f++)
        fuzz_must(zr_manifest_find(&manifest, manifest.files[f].name) == &manifest.files[f]);
    zero_error refused = {0}; // whatever it says is taken or told
    fuzz_must((zr_state_check(manifest.state, ZR_MANIFEST, &refused) == ZERO_OK) ==
              !refused.message[0]);
    zr_manifest_verify(fuzz_directory(), &manifest, NULL, NULL, NULL); // the files are not there
    zero_status status = read_again(&manifest, error);
    zr_manifest_free(&manifest);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_buffer text = {0};
    zr_buffer_append(&text, data, size);
    zr_buffer_printf(&text, ",\"hash\":\"%016llx\"}\n",
                     (unsigned long long)zr_hash_bytes(data, size, 0));
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for an input") : ZERO_OK;
    if (status == ZERO_OK) {
        fuzz_put(ZR_MANIFEST, text.data, text.length);
        status = read_manifest(error);
    }
    zr_buffer_free(&text);
    return status;
}
