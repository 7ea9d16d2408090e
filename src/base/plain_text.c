// Makes text harmless for a terminal and for line-based logs.
#include "base/text.h"

#include <string.h>

// Decides by a lead byte and the byte after it whether a sequence is invalid: a shorter form
// exists, it spells half of a surrogate pair, or it lies beyond U+10FFFF.
static bool is_excluded(unsigned char lead, unsigned char second)
{
    bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    bool surrogate = lead == 0xed && second >= 0xa0;
    bool beyond = lead == 0xf4 && second >= 0x90;
    return overlong || surrogate || beyond;
}

size_t zr_utf8_bytes(const unsigned char *text, size_t length)
{
    unsigned char lead = text[0];
    if (lead < 0x80)
        return 1;
    size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || bytes > length)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return is_excluded(lead, text[1]) ? 0 : bytes;
}

// Control characters are U+0000 to U+001F and U+007F to U+009F.
static bool is_control(const unsigned char *at, size_t bytes)
{
    return bytes == 1 ? at[0] < 0x20 || at[0] == 0x7f : bytes == 2 && at[0] == 0xc2 && at[1] < 0xa0;
}

static size_t escape_byte(unsigned char c, char out[static 4])
{
    static const char digits[] = "0123456789abcdef";
    out[0] = '\\';
    out[1] = c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : 'x';
    out[2] = digits[c >> 4];
    out[3] = digits[c & 15];
    return out[1] == 'x' ? 4 : 2;
}

size_t zr_plain_text(const char *text, char *out, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t length = strlen(text), used = 0;
    while (length) {
        char escaped[8];
        size_t bytes = zr_utf8_bytes(at, length), taken = bytes ? bytes : 1, count = 0;
        bool plain = bytes && !is_control(at, bytes);
        for (size_t i = 0; !plain && i < taken; i++)
            count += escape_byte(at[i], escaped + count);
        count = plain ? bytes : count;
        if (used + count >= size)
            break;
        memcpy(out + used, plain ? (const char *)at : escaped, count);
        used += count;
        at += taken;
        length -= taken;
    }
    out[used] = 0;
    return used;
}

void zr_plain_line(const char *line, void (*write)(void *user, const char *text), void *user)
{
    enum { MOST = 2 * ZERO_MESSAGE_BYTES };
    char bare[MOST], plain[4 * MOST + 1];
    size_t length = strlen(line);
    bool ends = length && line[length - 1] == '\n';
    length = ZR_MIN(length - ends, sizeof bare - 1);
    memcpy(bare, line, length);
    bare[length] = 0;
    size_t used = zr_plain_text(bare, plain, sizeof plain - 1);
    plain[used] = '\n';
    plain[used + ends] = 0;
    write(user, plain);
}
