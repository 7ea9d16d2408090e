"""Asks zero simulate."""
import json
import os
import subprocess
import threading

from score_runs.machines import Machine

SECONDS = 60  # that an answer takes at most; it takes hundredths of one


class ProgramError(Exception):
    """The program does not answer as it should."""


class Program:
    """A program, and a folder for the files of its questions."""

    def __init__(self, path, folder):
        self.path, self.folder = path, folder
        self.written = {}  # text of a file -> its path
        self.lock = threading.Lock()

    def call(self, *arguments):
        """(exit code, what it prints, its last message)"""
        done = subprocess.run([self.path, "simulate", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=SECONDS, check=False)
        lines = done.stderr.decode("latin-1").splitlines() or [""]
        return done.returncode, done.stdout, lines[-1].removeprefix("zero simulate: ")

    def machines(self):
        code, text, message = self.call("--machine", "list", "--json")
        if code:
            raise ProgramError(message)
        return [Machine(entry["name"], entry["machine"]) for entry in json.loads(text)]

    def machine(self, name):
        """The machine that the program takes for a name or a path."""
        code, text, message = self.call("--new", "gpt2", "--machine", name, "--ranks", "1", "--json")
        if code:
            raise ProgramError(message)
        found = json.loads(text)["machine"]
        for machine in self.machines():
            if machine.name == found and not os.path.exists(name):
                return machine
        path = name if os.path.exists(name) else os.path.join("machines", found + ".json")
        with open(path, encoding="utf-8") as file:
            return Machine(found, json.load(file))

    def write(self, name, content):
        """Writes a file of JSON once. Returns its path."""
        text = json.dumps(content)
        with self.lock:
            if (name, text) not in self.written:
                folder = os.path.join(self.folder, str(len(self.written)))
                os.mkdir(folder)
                path = os.path.join(folder, name + ".json")
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                self.written[name, text] = path
            return self.written[name, text]

    def write_question(self, run, machine):
        """The paths of the two files of a question."""
        return self.write("run", run), self.write(machine.name, machine.file)

    def ask(self, run, machine, framework):
        """(answer, None) or (None, why the run is refused)"""
        run_path, machine_path = self.write_question(run, machine)
        code, text, message = self.call("--run", run_path, "--machine", machine_path, "--framework", framework, "--json")
        return (json.loads(text), None) if code == 0 else (None, message)
