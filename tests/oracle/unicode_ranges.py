"""Writes src/tokenizer/unicode_ranges.c: letters and numbers of the Unicode version that the `tokenizers` library's regular expressions know."""
import sys
from tokenizers import Regex, pre_tokenizers

def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    out = []
    for base in range(0, 0x110000, 0x1000):
        chars = [chr(c) for c in range(base, base + 0x1000) if not 0xd800 <= c < 0xe000]
        if chars:
            left = {c for piece, _ in split.pre_tokenize_str("".join(chars)) for c in piece}
            out += [ord(c) for c in chars if c not in left]
    return out

def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out

def table(name, points):
    rows, line = [], "   "
    for first, last in ranges(points):
        item = f" {{0x{first:x}, 0x{last:x}}},"
        if len(line) + len(item) > 150:
            rows.append(line)
            line = "   "
        line += item
    rows.append(line)
    return f"const zr_code_range {name}[] = {{\n" + "\n".join(rows) + "\n};\n", len(ranges(points))

letters, nl = table("zr_letters", members(r"\p{L}"))
numbers, nn = table("zr_numbers", members(r"\p{N}"))
print(f"""// Letters (\\p{{L}}) and numbers (\\p{{N}}) of Unicode 16.0, written by tests/oracle/unicode_ranges.py: what the regular expressions of
// the `tokenizers` library 0.23 take for them. They are pinned here, not taken from a library of the system, so that a text has
// the same ids on every machine. Surrogates are none. test_unicode_class.c compares them with utf8proc.
#include "tokenizer/pretokenize.h"

{letters}
{numbers}
const int zr_letter_ranges = ZR_COUNT(zr_letters), zr_number_ranges = ZR_COUNT(zr_numbers);""")
print(nl, nn, file=sys.stderr)
