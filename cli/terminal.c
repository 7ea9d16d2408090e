#include "terminal.h"

#include <stdio.h>
#include <unistd.h>
#include <sys/ioctl.h>

// Returns the length of the control character at the start of text[0..length), or 0 if there is
// none: C0, DEL, and C1 in UTF-8.
static size_t control_bytes(const unsigned char *text, size_t length)
{
    if (text[0] == '\n' || text[0] == '\t')
        return 0;
    if (text[0] < 0x20 || text[0] == 0x7f)
        return 1;
    return length > 1 && text[0] == 0xc2 && text[1] < 0xa0 ? 2 : 0;
}

bool cli_put_text(const char *text, size_t length)
{
    if (!isatty(STDOUT_FILENO))
        return fwrite(text, 1, length, stdout) == length;
    for (size_t i = 0; i < length;) {
        size_t control = control_bytes((const unsigned char *)text + i, length - i);
        putchar(control ? '.' : text[i]);
        i += control ? control : 1;
    }
    return !ferror(stdout);
}

int cli_columns(void)
{
    struct winsize window = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}
