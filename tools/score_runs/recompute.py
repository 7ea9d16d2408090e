"""What is computed again, in the words that frameworks have for it: Megatron's granularity (full, selective) and method
(uniform, block), torchtitan's mode (full, selective by layers or by operator), or how many layers of how many."""
import re

from score_runs import words

WORDS = {"none": "none", "selective": "selective", "operators": "selective, by operator", "full": "full"}
NONE = ("none", "no", "off", "false", "0")
FULL = ("full", "uniform", "block", "all")
OPERATORS = ("op", "ops", "operator", "operators")
YES = ("yes", "on", "true")
MOST_LAYERS = 100000


def has_any(text, several):
    return any(words.find_word(text, word) >= 0 for word in several)


def begins_with_any(text, several):
    return any(words.begins(text, word) for word in several)


def every_nth(text):
    """The n of "every nth layer"; 0: the text has none."""
    match = re.search("every ([0-9]+)", words.folded(text))
    return min(int(match.group(1)), 1000) if match else 0


def part_of_layers(text):
    """(2, 8) of "2 of 8 layers"; None: the text has no such words."""
    of = words.find_word(text, "of")
    if of < 0 or not words.has(text[of:], "layer"):
        return None
    layers = words.number(re.search("[0-9 ]*$", text[:of]).group())
    every = words.number(text[of + len("of"):])
    return (layers, every) if 0 < layers <= every else None


def block_layers(text):
    """The layers of each stage that Megatron's method block computes again; 0: the text has none."""
    at = words.find_word(text, "block")
    digits = re.search("[0-9].*", text[at:], re.DOTALL) if at >= 0 else None
    return words.number(digits.group()) if digits else 0.0


def set_part(reading, layers, of_layers):
    every = min(max(1, words.rounded(of_layers / layers)), MOST_LAYERS)
    reading.run["recompute"], reading.run["recompute_every"] = "full", every
    reading.remark("recompute full, of every %g layers one" % every)


def read_layers(reading, text):
    """Reads which layers are computed again; False: the words do not say."""
    run = reading.run
    every, part, block = every_nth(text), part_of_layers(text), block_layers(text)
    stage = run["layers"] / run["pipeline"]
    if every > 0:
        run["recompute"], run["recompute_every"] = "full", every
    elif part:
        set_part(reading, *part)
    elif block > 0:
        set_part(reading, min(block, stage), stage)
    else:
        return False
    return True


def kind_of(text, system):
    """What of a layer is computed again; None: the words do not say."""
    selective = words.has(text, "selective")
    if words.begins(text, "full"):
        return "full"
    if has_any(text, OPERATORS) or (selective and words.has(system, "titan")):
        return "operators"
    if selective or words.has(text, "attention") or words.has(text, "core_attn"):
        return "selective"
    return "full" if has_any(text, FULL) or begins_with_any(text, YES) else None


def choose(reading):
    """Chooses the least recomputation with which the run fits."""
    if reading.framework.get("recomputes"):
        return "full"
    if reading.flash:
        return "none"
    for kind in ("none", "selective"):
        if reading.fits(recompute=kind, micro_batch=reading.run["micro_batch"] or 1, global_batch=0):
            return kind
    return "full"


def read_recompute(reading):
    """Reads it; the grid, the system and the model have been read."""
    run, text = reading.run, words.skip_spaces(reading.cell("recompute"))
    run["recompute_every"] = 1
    if words.has(text, "sequence parallel"):
        run["sequence_parallel"] = run["tensor"] > 1
    if begins_with_any(text, NONE):
        run["recompute"] = "none"
    elif not read_layers(reading, text):
        kind = kind_of(text, reading.system)
        run["recompute"] = kind or choose(reading)
        if kind is None:
            reading.remark("recompute %s%s" % (WORDS[run["recompute"]],
                                             ", since the cell's words are not known" if text else ""))
        elif not words.begins(text, "full") and not words.begins(text, "selective"):
            reading.remark("recompute %s" % WORDS[kind])  # one of the usual names needs no words
