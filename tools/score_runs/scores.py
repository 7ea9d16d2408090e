"""The score of a table: how far predictions are from what was measured."""
import math
import re

from score_runs.tables import quoted

INSIDE = {"none": 1, "selective": 1, "operators": 1, "full": 4 / 3}  # full recomputation runs forward twice


def quantile(numbers, part):
    """The quantile of some numbers, at least one, that `part` of them are below: of two neighbors the one between, in
    proportion (Hyndman and Fan's seventh rule)."""
    ordered = sorted(numbers)
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def median(numbers):
    return quantile(numbers, 0.5)


def apart(row):
    return abs(math.log(row.seconds / row.measured))


def done_rate(row):
    """FLOP/s of a device."""
    run = row.reading.run
    tokens = float(run["global_batch"]) * run["seq"]
    attention = 12.0 * run["layers"] * run["width"] * run["seq"]
    return (6 * run["parameters"] + attention) * INSIDE[run["recompute"]] * tokens / run["devices"] / row.measured


def constants(rows):
    """The distance of each row from what a constant fitted to its device, the median of its rates, would predict."""
    rates = {}
    for row in rows:
        rates.setdefault(row.reading.machine.device, []).append(math.log(done_rate(row)))
    usual = {device: median(found) for device, found in rates.items()}
    return [abs(math.log(done_rate(row)) - usual[row.reading.machine.device]) for row in rows]


def time_lines(rows):
    """A line for each family, and one for all."""
    own, constant = [apart(row) for row in rows], constants(rows)
    lines = [" rows   median      90th  a constant's  90th  family"]
    for family in [*dict.fromkeys(row.family for row in rows), None]:
        same = [at for at, row in enumerate(rows) if family in (None, row.family)]
        found = [100 * quantile([distances[at] for at in same], part) for distances in (own, constant) for part in (0.5, 0.9)]
        lines.append("%5d %8.1f%% %7.1f%% %11.1f%% %7.1f%%  %s" % (len(same), *found, "all" if family is None else family))
    return lines


def memory_lines(rows):
    """How far memory is from what was measured: where that is the peak of what was allocated, and, in a line of its own,
    where it is something else (reserved, or all that a device shows)."""
    lines = []
    for allocated, kind in ((True, "the peak allocated"), (False, "measured otherwise")):
        found = [abs(math.log(row.memory / row.measured_memory)) for row in rows
                 if row.scored and row.measured_memory > 0 and row.memory > 0 and row.allocated == allocated]
        if found:
            lines.append("%5d %8.1f%% %7.1f%% (largest)  memory, where it is %s"
                         % (len(found), 100 * median(found), 100 * max(found), kind))
    return lines


def work_of(row):
    run = row.reading.run
    return (row.reading.machine.device, run["layers"], run["width"], run["seq"], run["devices"], run["global_batch"])


def choice_lines(rows):
    """What choosing by prediction costs: among rows of one model, devices and batch, how much longer than the fastest the row
    takes that is predicted to be the fastest."""
    groups = {}
    for row in sorted(rows, key=work_of):
        groups.setdefault(work_of(row), []).append(row)
    costs = [min(group, key=lambda row: row.seconds).measured / min(row.measured for row in group) - 1
             for group in groups.values() if len(group) > 1]
    return ["%5d %8.1f%% %7.1f%% (mean, largest)  what choosing by prediction costs, among rows of one model, devices and batch"
            % (len(costs), 100 * sum(costs) / len(costs), 100 * max(0, *costs))] if costs else []


def score_lines(rows):
    tests = [row for row in rows if row.scored and row.measured > 0 and row.seconds > 0]
    failed = sum(row.scored and row.seconds <= 0 for row in rows)
    lines = time_lines(tests) if tests else ["no row says what was measured"]
    lines += memory_lines(rows) + choice_lines(tests)
    if failed:
        lines.append("%5d rows could not be predicted; the column why of --out FILE tells the reasons" % failed)
    return lines


def number(digits, value):
    """As C's %.*g writes it."""
    return re.sub(r"e([-+])(\d)$", r"e\g<1>0\2", "%.*g" % (digits, value))


def prediction_lines(rows):
    """The file of --out."""
    lines = ["id,predicted_s,predicted_GB,why"]
    for row in rows:
        seconds, memory = (number(6, row.seconds), number(4, row.memory / 1e9)) if row.seconds > 0 else ("", "")
        lines.append("%s,%s,%s,%s" % (quoted(row.id), seconds, memory, quoted(row.why)))
    return lines
