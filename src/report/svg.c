#include "report/svg.h"

#include <string.h>

enum { ENTRY_GAP = 16 }; // between two entries of a legend

static const char shared_style[] =
    ".paper{fill:#ffffff}.line{stroke:#888888;fill:none}\n"
    "text{fill:#222222;font:11px sans-serif}.title{font-size:15px;font-weight:bold}"
    ".on{fill:#111111}.middle{text-anchor:middle}\n"
    ".box{stroke:#ffffff;stroke-width:.5}\n"
    "@media (prefers-color-scheme:dark){.paper{fill:#15181c}text{fill:#dddddd}.on{fill:#111111}"
    ".box{stroke:#15181c}}\n";

static void append_escaped(zr_buffer *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': zr_buffer_printf(out, "&amp;"); break;
        case '<': zr_buffer_printf(out, "&lt;"); break;
        case '>': zr_buffer_printf(out, "&gt;"); break;
        default: zr_buffer_append(out, text, 1);
        }
    }
}

void zr_svg_put_text(zr_buffer *body, int x, int y, const char *class, const char *text)
{
    zr_buffer_printf(body, "<text x=\"%d\" y=\"%d\"", x, y);
    if (class)
        zr_buffer_printf(body, " class=\"%s\"", class);
    zr_buffer_printf(body, ">");
    append_escaped(body, text);
    zr_buffer_printf(body, "</text>\n");
}

void zr_svg_put_box(zr_buffer *body, const zr_svg_box *box)
{
    bool wide = (int)strlen(box->label) * ZR_SVG_LETTER <= box->width;
    zr_buffer_printf(body,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"box %s\"><title>",
                     box->x, box->y, ZR_MAX(box->width, 1), ZR_MAX(box->height, 1), box->class);
    append_escaped(body, box->told);
    zr_buffer_printf(body, "</title></rect>\n");
    if (wide && box->height >= ZR_SVG_LETTER_HEIGHT && *box->label)
        zr_svg_put_text(body, box->x + (box->centered ? box->width / 2 : 2),
                        box->y + box->height / 2 + 4, box->centered ? "on middle" : "on",
                        box->label);
}

int zr_svg_put_entry(zr_buffer *body, int x, int y, const char *class, const char *text)
{
    zr_svg_put_box(body, &(zr_svg_box){
                             .x = x,
                             .y = y,
                             .width = ZR_SVG_LETTER_HEIGHT,
                             .height = ZR_SVG_LETTER_HEIGHT,
                             .class = class,
                             .label = "",
                             .told = text,
                         });
    zr_svg_put_text(body, x + ZR_SVG_LETTER_HEIGHT + 4, y + ZR_SVG_LETTER_HEIGHT - 1, NULL, text);
    return x + ZR_SVG_LETTER_HEIGHT + ENTRY_GAP + (int)strlen(text) * ZR_SVG_LETTER;
}

void zr_svg_put_document(zr_buffer *out, int width, int height, const char *style,
                         const zr_buffer *body)
{
    zr_buffer_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\">\n<style>\n%s%s</style>\n",
                     width, height, width, height, shared_style, style);
    zr_buffer_printf(out, "<rect width=\"100%%\" height=\"100%%\" class=\"paper\"/>\n");
    zr_buffer_append(out, body->data, body->length);
    zr_buffer_printf(out, "</svg>\n");
    out->failed |= body->failed;
}
