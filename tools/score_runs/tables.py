"""Tables (CSV): a first line of names, and lines of cells, which may be quoted."""
import re

from score_runs.words import folded

# A quoted cell goes on after its last quote; a quote inside a cell that does not begin with one stands for itself.
CELL = re.compile(r'"((?:[^"]|"")*)("?)([^,\r\n]*)|([^,\r\n]*)')


class TableError(Exception):
    """A file that is no table, with the reason."""


class Row:
    def __init__(self, table, line, cells):
        self.table, self.line, self.cells = table, line, cells

    def cell(self, column):
        """A cell; "": the table has no such column."""
        at = self.table.columns.get(folded(column))
        return "" if at is None else self.cells[at]


class Table:
    """The rows of a file. `columns` has the place of each name in small letters, the first one if it is there twice."""

    def __init__(self, path):
        with open(path, "rb") as file:
            text = file.read().decode("latin-1")
        if "\0" in text:
            raise TableError("%s has bytes that are 0: it is no table" % path)
        self.rows, self.columns = [], {}
        names = None
        for line, cells in read_lines(text[3:] if text.startswith("\xef\xbb\xbf") else text):
            if names is None:
                names = cells
            elif len(cells) != 1 or len(names) == 1 or cells[0]:  # else the line is empty
                check_count(path, line, names, cells)
                self.rows.append(Row(self, line, cells))
        if names is None:
            raise TableError("%s is empty, where a table begins with the names of its columns" % path)
        for at, name in enumerate(names):
            self.columns.setdefault(folded(name), at)


def read_lines(text):
    """Yields (line of the file, from 1, at which it begins; cells)."""
    at, line = 0, 1
    while at < len(text):
        first, cells = line, []
        while True:
            match = CELL.match(text, at)
            quoted = match.group(1)
            cells.append(match.group(4) if quoted is None else quoted.replace('""', '"') + match.group(3))
            line += cells[-1].count("\n")
            at = match.end() + 1
            if text[at - 1:at] != ",":
                break
        if text[at - 1:at + 1] == "\r\n":
            at += 1
        line += 1
        yield first, cells


def check_count(path, line, names, cells):
    if len(cells) > len(names):
        raise TableError("%s, line %d: %d cells, where the first line names %d columns; a cell with a comma needs quotes"
                         % (path, line, len(cells), len(names)))
    if len(cells) < len(names):
        raise TableError("%s, line %d: %d cells, where the first line names %d columns; the first that lacks one is \"%s\""
                         % (path, line, len(cells), len(names), names[len(cells)]))


def quoted(text):
    """A cell, in quotes where it needs them."""
    return '"%s"' % text.replace('"', '""') if re.search('[,"\r\n]', text) else text
