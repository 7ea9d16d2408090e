# plan_views.py PROGRAM SVG LETTERS: that zero plan's list, drawing and letters are of one program,
# and each is sound in itself.
import re, sys, xml.etree.ElementTree as tree
from collections import Counter

text, letters = open(sys.argv[1]).read(), open(sys.argv[3]).read()
drawing = tree.parse(sys.argv[2]).getroot()

# The list: columns begin where their headings do; numbers are right under theirs.
names = ["micro-batch", "evaluation", "boundary", "update", "publish"]
passes = dict(re.findall(r"^(%s): (.*\n(?:.+\n)*)" % "|".join(names), text, re.M))
assert list(passes) == names, list(passes)
rows = {}
for name, lines in passes.items():
    summary, *lines = lines.splitlines()
    if summary == "nothing":
        assert not lines, name
        continue
    heading, *lines = lines
    heading = heading.replace("flat parameter", "flat_parameter")
    starts = [(m.group(), m.start(), m.end()) for m in re.finditer(r"\S+", heading)]
    at = {word: (0 if word == "number" else begin, end) for word, begin, end in starts}
    def cell(line, word, after):
        begin = at[word][0] if word != "bytes" else line.rfind(" ", 0, at["bytes"][1]) + 1
        return line[begin:at[after][0] if after else None].strip()
    forward_end = [i for i, line in enumerate(lines) if "end of forward:" in line]
    assert len(forward_end) == (name == "micro-batch"), (name, forward_end)
    lines = [line for line in lines if "end of forward:" not in line]
    ends = {"code": "when", "when": "unit", "unit": "flat_parameter", "flat_parameter": "place",
            "slot": "mark"}
    rows[name] = [{word: cell(line, word, end) for word, end in ends.items()} for line in lines]
    numbers = [int(line[:at["number"][1]]) for line in lines]
    assert numbers == list(range(len(lines))), name
    counted = Counter(r["code"].split()[0] for r in rows[name])
    said = {code: int(number) for number, code in re.findall(r"(\d+) ([A-Z]+)", summary)}
    assert said == counted, (name, summary, counted)
    if forward_end:
        order = [r["code"] for r in rows[name]]
        assert "CALL forward" not in order[forward_end[0]:]
        assert "CALL backward" not in order[:forward_end[0]]
batch = rows["micro-batch"]
codes = Counter(r["code"] for r in batch)

# The drawing: no scripts; as many boxes as instructions, each inside of it.
kinds = {"forward": codes["CALL forward"], "again": codes["CALL forward again"],
         "backward": codes["CALL backward"], "both": codes["CALL forward_backward"],
         "gather": sum(r["code"] == "GATHER" and r["slot"] != "" for r in batch) + codes["JOIN"],
         "reduce": codes["REDUCE"], "fetch": codes["FETCH"], "store": codes["STORE"]}
svg = "{http://www.w3.org/2000/svg}"
width, height = int(drawing.get("width")), int(drawing.get("height"))
tags = {svg + tag for tag in ("svg", "style", "rect", "text", "title", "path")}
assert {e.tag for e in drawing.iter()} <= tags
boxes = [(r.get("class").split(), [int(r.get(k)) for k in ("x", "y", "width", "height")],
          r.find(svg + "title").text)
         for r in drawing.iter(svg + "rect") if "box" in r.get("class")]
drawn = Counter(c[1] for c, _, _ in boxes)
legend = {k: int(kinds[k] > 0) for k in kinds}  # it has those that occur
assert {k: drawn[k] - legend[k] for k in kinds} == kinds, (kinds, drawn)
# A color has one meaning: operations and flat parameters share none, and the
# legend has flat parameters if there are any.
style = drawing.find(svg + "style").text
fills = re.findall(r"\.(\w+)\{fill:(#\w+)\}", style.split("@media")[1].split("}}")[1])
assert len({fill for _, fill in fills}) == len(fills) >= len(kinds) + 3, fills
lives = [told for kind, _, told in boxes if kind[1].startswith("piece") and " from byte " in told]
assert drawn["piece0"] + drawn["piece1"] + drawn["piece2"] == len(lives) + bool(lives), drawn
assert (sum("if" in kind for kind, _, _ in boxes) > 0) == ("dashed: " in "".join(drawing.itertext()))
for kind, (x, y, w, h), told in boxes:
    assert x >= 0 and y >= 0 and w > 0 and h > 0 and x + w <= width and y + h <= height, told
# An exchange or a transfer lasts until the next AWAIT of its slot; what is later lies to the right.
columns = []
for kind, (x, y, w, h), told in boxes:
    flight = re.fullmatch(r"(gather|reduce|join|fetch|store) (\S+), .*, from (\d+) until (\d+)", told)
    if flight:
        begin, end = int(flight[3]), int(flight[4])
        begun = batch[begin]
        named = (begun["code"].lower(), begun["flat_parameter"] or "checkpoint")
        assert named == flight.groups()[:2], told
        awaits = [i for i in range(begin, len(batch)) if batch[i]["code"] == "AWAIT"]
        ends = [i for i in awaits if batch[i]["slot"] == begun["slot"]]
        ends = [begin + 1] if flight[1] == "join" else ends
        assert end == min(ends, default=len(batch)), told
        assert ("if" in kind) == (begun["when"] != ""), told
        columns += [(begin, x)] + ([(end, x + w)] if w > 1 else [])
assert [x for _, x in sorted(columns)] == sorted(x for _, x in columns), columns
# Nothing lies where something else does: exchanges and transfers in their rows, lives in their
# panels. What is as thin as a line may touch its neighbor.
for i, (kind, (x, y, w, h), told) in enumerate(boxes):
    for _, (X, Y, W, H), other in boxes[i + 1:]:
        across, down = min(x + w, X + W) - max(x, X), min(y + h, Y + H) - max(y, Y)
        assert across <= 1 or down <= 1, (told, other)

# The letters: a column a CALL; a flat parameter is read in the calls of its unit, and their
# backward adds to its gradient.
calls = [r for r in batch if r["code"].startswith("CALL")]
table = dict(re.findall(r"^(\S+) +([fgorFBb.|]+)$", letters, re.M))
assert {r["flat_parameter"] for r in batch if r["flat_parameter"]} <= set(table), set(table)
for flat_param, cells in table.items():
    cells = cells.replace("|", "")
    assert len(cells) == len(calls), flat_param
    unit = flat_param.split("/")[0]
    for letter, call in zip(cells, calls):
        forward = call["code"] in ("CALL forward", "CALL forward again")
        assert letter != "F" or forward, (flat_param, call)
        assert letter not in "Bb" or not forward, (flat_param, call)
        if call["unit"] == unit:
            assert letter == ("F" if forward else "B"), (flat_param, call, letter)
    slot = "fetched " + flat_param
    fetched = any(r["code"] == "FETCH" and r["slot"].startswith(slot) for r in batch)
    assert fetched or "f" not in cells, flat_param
# The last digits of the columns' numbers.
units = letters.split("\n\n")[1].splitlines()[-len(table) - 1]
assert re.findall(r"\d", units) == [str((c + 1) % 10) for c in range(len(calls))], units
