// What all drawings share: boxes and texts of an SVG document, and their style on light and dark
// screens. All coordinates are whole numbers, so that the text is the same in every locale.
#ifndef ZR_REPORT_SVG_H
#define ZR_REPORT_SVG_H

#include "base/alloc.h"

enum {
    ZR_SVG_LETTER = 7,         // approximate width of a letter of a text, for any font
    ZR_SVG_LETTER_HEIGHT = 11, // of a text, and of the boxes of a legend
    ZR_SVG_TITLE_LETTER = 9,   // approximate width of a letter of a title
    ZR_SVG_LINE_HEIGHT = 18,
};

typedef struct zr_svg_box { // a rectangle that stands for something
    int x, y, width, height;
    const char *class; // CSS classes of the style, in addition to "box"
    const char *label; // left out if there is no room for it
    bool centered;     // the label stands in the middle, not at the left edge
    const char *told;  // says in words what it is: a viewer shows that when the pointer is on it
} zr_svg_box;

// All append to a buffer, which becomes `failed` without memory. class NULL: a text has none.
void zr_svg_put_text(zr_buffer *body, int x, int y, const char *class, const char *text);
void zr_svg_put_box(zr_buffer *body, const zr_svg_box *box);
// Appends what the box of a legend and its words are; returns where the next one begins.
int zr_svg_put_entry(zr_buffer *body, int x, int y, const char *class, const char *text);
// Writes a document of such a body. style: CSS rules, after those that all drawings have.
void zr_svg_put_document(zr_buffer *out, int width, int height, const char *style,
                         const zr_buffer *body);

#endif
