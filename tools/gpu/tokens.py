#!/usr/bin/env python3
"""tokens.py FILE COUNT: random tokens of GPT-2's vocabulary as llm.c reads them, the same each time."""
import array
import random
import struct
import sys

MAGIC, VERSION, VOCABULARY = 20240520, 1, 50257

count = int(sys.argv[2])
draw = random.Random(1)
tokens = array.array("H", (draw.randrange(VOCABULARY) for _ in range(count)))
if sys.byteorder == "big":
    tokens.byteswap()
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<256i", MAGIC, VERSION, count, *[0] * 253))
    out.write(tokens.tobytes())
