"""The table that bench/compare prints."""


class Table:
    def __init__(self):
        self.rows, self.notes = [], []

    def add(self, work, ours, peer, ratio="", efficiency="", floor=""):
        self.rows.append([work, ours, efficiency, floor, peer, ratio])

    def remark(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def print(self):
        print("| work | libzero | efficiency | step / floor | peer | peer / libzero |\n|---|---|---|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |")
        for text in self.notes:
            print(f"\n{text}")
