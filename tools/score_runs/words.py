"""Numbers in free text: cells of tables of runs, and names of models.

"2,048", "8k", "1.5M" and "8 x 4 x 64" are numbers: commas between groups of three digits are skipped, a unit (k, M, B, T,
"million") multiplies, and so do "x" and "*" between two of them. Text that does not begin with a digit is not a number.
Digits, letters and blanks are those of ASCII: a file's bytes stand for themselves (they are read as latin-1).
"""
import math
import re

SPACES = " \t\n\v\f\r"
NUMBER, LENGTH, PARAMETERS = range(3)  # what a number counts decides what its unit means

DIGITS = re.compile(r"[0-9]*")
GROUP = re.compile(r",([0-9]{3})(?![0-9])")
EXPONENT = re.compile(r"[eE]([-+]?)([0-9]+)")
WORD = re.compile(r"[0-9A-Za-z]")


def skip_spaces(text):
    return text.lstrip(SPACES)


def folded(text):
    """Small letters, but of ASCII alone."""
    return re.sub("[A-Z]+", lambda match: match.group().lower(), text)


def has(text, part):
    """Whether a text has a part, whatever their capitals."""
    return folded(part) in folded(text)


def begins(text, word):
    """Whether a text begins with a whole word, whatever their capitals."""
    return folded(text).startswith(folded(word)) and not WORD.match(text, len(word))


def find_word(text, word):
    """Where a word stands as a whole; -1: nowhere."""
    for at in range(len(text)):
        if not (at > 0 and WORD.match(text, at - 1)) and begins(text[at:], word):
            return at
    return -1


def name_has(name, part):
    """Whether a name has a part, whatever their capitals, and "-", "_" or " " between words."""
    return re.sub("[-_]", " ", folded(part)) in re.sub("[-_]", " ", folded(name))


def power_of_ten(power):
    try:
        return math.pow(10, power)
    except OverflowError:
        return math.inf


def read_digits(digits, value):
    """Adds digits to a value, one by one: the sum of very many has no other bits than it would have in a loop of C."""
    for digit in digits:
        value = value * 10 + int(digit)
    return value


def unit_of(letter, meaning):
    if meaning == PARAMETERS:
        letter = letter.upper()
    return {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(letter, 1)


def read_unit(text, at, meaning):
    """The unit that stands directly after a number and ends there, as (factor, where it ends)."""
    following = folded(text[at:].lstrip(SPACES)[:7])
    if following in ("million", "billion"):
        end = len(text) - len(text[at:].lstrip(SPACES)) + 7
        return (1e6 if following == "million" else 1e9), end
    unit = unit_of(text[at:at + 1], meaning)
    if unit > 1 and WORD.match(text, at + 1):
        return 1, at
    return unit, at + (unit > 1)


def read_amount(text, at, meaning):
    """One number and its unit from text[at:] on, as (value, unit, where it ends); None: there is none."""
    at += len(text[at:]) - len(text[at:].lstrip(SPACES))
    if not re.compile(r"[0-9]|\.[0-9]").match(text, at):
        return None
    begin = at
    whole = DIGITS.match(text, at)
    value, at = read_digits(whole.group(), 0.0), whole.end()
    if at - begin <= 3 and value > 0:
        group = GROUP.match(text, at)
        while group:
            value, at = read_digits(group.group(1), value), group.end()
            group = GROUP.match(text, at)
    if text[at:at + 1] == ".":
        part = DIGITS.match(text, at + 1)
        value, at = read_digits(part.group(), value) / power_of_ten(len(part.group())), part.end()
    exponent = EXPONENT.match(text, at)
    if exponent:
        power = read_digits(exponent.group(2), 0.0)
        value, at = value * power_of_ten(-power if exponent.group(1) == "-" else power), exponent.end()
    unit, at = read_unit(text, at, meaning)
    return value, unit, at


def amount_of(value, unit, meaning):
    """A number and its unit multiplied. Whole and half numbers of lengths have binary units."""
    binary = meaning == LENGTH and 1 < unit <= 1e6 and value * 2 % 1 == 0
    if binary:
        return value * (1048576 if unit > 1e3 else 1024)
    return value * unit


def read_product(text, meaning):
    """The product with which a text begins, as (value, the largest unit in it, where it ends); 0: there is none."""
    product, largest = 1.0, 1
    one = read_amount(text, 0, meaning)
    if one is None:
        return 0.0, 1, 0
    while True:
        value, unit, at = one
        product *= amount_of(value, unit, meaning)
        largest = max(largest, unit)
        times = re.compile(r"[ \t\n\v\f\r]*[xX*](?=[ \t\n\v\f\r]*[0-9])").match(text, at)
        if not times:
            return (product if math.isfinite(product) else 0.0), largest, at
        one = read_amount(text, times.end(), meaning)


def number(text):
    """The number with which a text begins; 0: it begins with none."""
    return read_product(text, NUMBER)[0]


def length(text):
    """The same of samples or tokens: "8k" is 8192 and "4M" 4194304, because lengths are powers of two; "4.19M" is as it
    says."""
    return read_product(text, LENGTH)[0]


def tokens(text):
    """The tokens with which a text begins ("4M tokens"); 0: it begins with no number, or with one of something else."""
    value, _, end = read_product(text, LENGTH)
    return value if folded(text[end:].lstrip(SPACES)[:5]) == "token" else 0.0


def billions(text):
    """Billions of parameters: "125M" is 0.125, and so is "0.125"; 0: none."""
    value, unit, _ = read_product(text, PARAMETERS)
    # Nobody has a model of a million billions, so such a number counts parameters.
    return value / 1e9 if unit > 1 or value >= 1e6 else value


def name_billions(name):
    """The billions in a model's name ("MPT-30b"); 0: it has none."""
    for at, letter in enumerate(name):
        first = at == 0 or not (WORD.match(name, at - 1) or name[at - 1] == ".")
        size = read_amount(name, at, PARAMETERS) if first and letter.isdigit() and letter.isascii() else None
        if size and size[1] >= 1e6:
            return size[0] * size[1] / 1e9
    return 0.0


def rounded(value):
    """The nearest whole number of a positive one; halves go up."""
    below = math.floor(value)
    return below + (value - below >= 0.5)
