// The classes of characters, expanded from ranges once when a tokenizer is made.
#include "tokenizer/pretokenize.h"
#include "tokenizer/vocabulary.h"

#include <utf8proc.h>

static void set_class_of_ranges(zr_classes *classes, const zr_code_range *ranges, int count,
                                zr_class class)
{
    for (int i = 0; i < count; i++)
        for (int32_t c = ranges[i].first; c <= ranges[i].last && c < ZR_CLASSED; c++)
            classes->of[c] = (unsigned char)class;
}

void zr_classes_fill(zr_classes *classes)
{
    static const zr_code_range spaces[] = {
        {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
        {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
    };
    set_class_of_ranges(classes, zr_letters, zr_letter_ranges, ZR_LETTER);
    set_class_of_ranges(classes, zr_numbers, zr_number_ranges, ZR_NUMBER);
    set_class_of_ranges(classes, spaces, ZR_COUNT(spaces), ZR_SPACE);
}

zr_class zr_class_at(const zr_classes *classes, const char *text, size_t left, int *bytes)
{
    unsigned char first = (unsigned char)*text;
    *bytes = 1;
    if (first < 0x80)
        return classes->of[first];
    int32_t code_point;
    int length = zr_utf8_next(text, left, &code_point);
    if (!length)
        return ZR_OTHER;
    *bytes = length;
    return code_point < ZR_CLASSED ? classes->of[code_point] : ZR_OTHER;
}

bool zr_is_word(int32_t code_point)
{
    // Joiners, and letters in circles.
    static const zr_code_range more[] = {{0x200c, 0x200d},
                                         {0x24b6, 0x24e9},
                                         {0x1f130, 0x1f149},
                                         {0x1f150, 0x1f169},
                                         {0x1f170, 0x1f189}};
    for (int i = 0; i < ZR_COUNT(more); i++)
        if (code_point >= more[i].first && code_point <= more[i].last)
            return true;
    utf8proc_category_t category = utf8proc_category(code_point);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC;
}
