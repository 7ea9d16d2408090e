"""Runs libzero and its peers for bench/compare: each contestant is started once where it can be, takes its rounds when asked, and
says why where it cannot be measured."""
import collections
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
START_SECONDS = 900  # of a peer until its first step's end: torch.compile on slow cores
ROUND_SECONDS = 900
SAMPLE_SECONDS = 0.1

Step = collections.namedtuple("Step", "ms efficiency floor seconds")  # seconds: how long it took to measure


class Unmeasured(Exception):
    """Why there is no figure."""


def last_line(path):
    """Of what a process wrote to stderr: the exception if there is one."""
    lines = [line.strip() for line in open(path, errors="replace") if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b|zero", line)]
    return (named or lines or ["it said nothing"])[-1][:160]


def pss(pid):
    """Bytes of a process: pages that k processes map count 1/k. 0 once it is gone."""
    try:
        return 1024 * int(re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
    except (OSError, TypeError):
        return 0


def children(pid):
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:
            pass  # it ended meanwhile
    return found


class Watch(threading.Thread):
    """The largest PSS that any of the processes which `pids()` names ever has."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.peak, self.over = pids, 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(SAMPLE_SECONDS):
            self.peak = max([self.peak, *map(pss, self.pids())])

    def stop(self):
        self.over.set()
        self.join()
        return self.peak


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def compile_operators(python):
    """DeepSpeed's, before anything of it is timed; where that fails its contestants say what they take instead."""
    if shutil.which(python):
        subprocess.run([python, str(HERE / "operators.py")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=START_SECONDS, check=False)


class Peer:
    """A script of this directory on `ranks` processes, each bound to its own cores, waiting for its rounds on stdin."""

    def __init__(self, python, script, arguments, ranks=1, threads=2):
        if not shutil.which(python):
            raise Unmeasured(f"no Python at {python}; bench/peers/setup makes it")
        self.began = time.monotonic()
        self.lines, self.notes = queue.Queue(), []
        self.log = tempfile.NamedTemporaryFile(prefix="compare-", suffix=".log")
        environment = dict(os.environ, PATH=f"{os.path.dirname(python)}:{os.environ['PATH']}", OMP_NUM_THREADS=str(threads),
                           DS_ACCELERATOR="cpu", GLOO_SOCKET_IFNAME="lo", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), WORLD_SIZE=str(ranks))
        command = [python, str(HERE / script), "--threads", str(threads), "--serve", *map(str, arguments)]
        self.ranks = [self.spawn(command, environment, rank, threads, ranks) for rank in range(ranks)]
        threading.Thread(target=self.read, daemon=True).start()

    def spawn(self, command, environment, rank, threads, ranks):
        process = subprocess.Popen(command, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)), text=True, start_new_session=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=self.log)
        cores = sorted(os.sched_getaffinity(0))
        if ranks > 1 and len(cores) >= ranks * threads:
            os.sched_setaffinity(process.pid, cores[rank * threads:(rank + 1) * threads])
        return process

    def read(self):
        for line in self.ranks[0].stdout:
            if line.startswith("peer "):
                self.lines.put((time.monotonic(), line.split(None, 2)[1:]))
        self.lines.put((time.monotonic(), ["ended", ""]))

    def answer(self, name, seconds):
        """The rest of the next line of that name, and when it came."""
        until = time.monotonic() + seconds
        while True:
            try:
                when, (key, rest) = self.lines.get(timeout=max(0.0, min(1.0, until - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= until:
                    raise Unmeasured(f"no answer within {seconds:.0f} s") from None
                if any(rank.poll() for rank in self.ranks):
                    raise Unmeasured(last_line(self.log.name)) from None
                continue
            if key == "ended":
                self.ranks[0].wait()
                raise Unmeasured(last_line(self.log.name))
            if key == name:
                return rest.strip(), when
            self.notes.append(rest.strip())

    def first_step(self):
        """Seconds from the start of the process to the end of its first step."""
        return self.answer("first", START_SECONDS)[1] - self.began

    def warm_up(self):
        """Milliseconds of its second step."""
        self.first_step()
        return float(self.answer("warm", ROUND_SECONDS)[0])

    def round(self, steps):
        """Median milliseconds of that many steps."""
        try:
            for rank in self.ranks:
                rank.stdin.write(f"{steps}\n")
                rank.stdin.flush()
        except BrokenPipeError:
            raise Unmeasured(last_line(self.log.name)) from None
        return float(self.answer("round", ROUND_SECONDS)[0].split()[1])

    def close(self):
        for rank in self.ranks:
            try:
                os.killpg(rank.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            rank.wait()
            rank.stdin.close()
        self.log.close()


class Zero:
    """The program, one run a question."""

    def __init__(self, program):
        self.program = program
        self.work = tempfile.TemporaryDirectory(prefix="compare-")
        self.text = pathlib.Path(self.work.name, "text.txt")
        self.text.write_bytes(bytes(32 + i * i % 89 for i in range(400_000)))

    def run(self, arguments, threads):
        if not shutil.which(self.program):
            raise Unmeasured(f"no program at {self.program}")
        done = subprocess.run([self.program, *map(str, arguments)], env=dict(os.environ, OMP_NUM_THREADS=str(threads)), text=True,
                              capture_output=True)
        if done.returncode:
            raise Unmeasured(((done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"])[-1][:160])
        return done.stdout

    @staticmethod
    def figure(pattern, text):
        found = re.search(pattern, text, re.M)
        if not found:
            raise Unmeasured(f"its output has no line \"{pattern}\"")
        return float(found[1])

    def step(self, spec, batch, seq, dtype, stage, threads, flags):
        began = time.monotonic()
        text = self.run(["bench", "step", "--new", spec, "--micro-batch", batch, "--seq", seq, "--dtype", dtype, "--stage", stage,
                         *flags], threads)
        return Step(self.figure(r"^step +([\d.]+) ms", text), self.figure(r"^efficiency +([\d.]+)", text),
                    self.figure(r"^step / floor +([\d.]+)", text), time.monotonic() - began)

    def optimizer(self, parameters, threads):
        """Milliseconds of norm, clip, update and 16-bit copy over that many parameters."""
        return self.figure(r"^fused +([\d.]+) ms", self.run(["bench", "optimizer", "--params", parameters, "--threads", threads], threads))

    def train(self, spec, batch, seq, dtype, stage, threads, flags, steps):
        """Starts a run; its metrics.jsonl grows by a line when a step ends."""
        out = pathlib.Path(self.work.name, "run")
        shutil.rmtree(out, ignore_errors=True)
        if not shutil.which(self.program):
            raise Unmeasured(f"no program at {self.program}")
        process = subprocess.Popen([self.program, *map(str, [
            "train", "--new", spec, "--tokenizer", "bytes", "--data", self.text, "--val", "none", "--out", out, "--overwrite", "--no-final-checkpoint", "--quiet",
            *flags, "--stage", stage, "--micro-batch", batch, "--seq", seq,
            "--dtype", dtype, "--steps", steps])],
            env=dict(os.environ, OMP_NUM_THREADS=str(threads)), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return process, out / "metrics.jsonl"

    @staticmethod
    def wait_for_steps(process, metrics, steps):
        """The lines of the steps, as soon as there are that many."""
        while True:
            ended = process.poll() is not None
            lines = [line for line in metrics.read_text().splitlines() if '"loss"' in line] if metrics.exists() else []
            if len(lines) >= steps:
                return lines
            if ended:
                raise Unmeasured((process.stderr.read().strip().splitlines() or ["it ended early"])[-1][:160])
            time.sleep(0.005)

    def first_step(self, *work):
        """Seconds from the start of the program to the end of its first step."""
        began = time.monotonic()
        process, metrics = self.train(*work, steps=1)
        try:
            self.wait_for_steps(process, metrics, 1)
            return time.monotonic() - began
        finally:
            process.wait()

    def memory(self, *work):
        """Bytes of the rank that holds most, until the last step's end: peak PSS, planned, held."""
        process, metrics = self.train(*work, steps=3)
        watch = Watch(lambda: children(process.pid) or [process.pid])
        try:
            last = json.loads(self.wait_for_steps(process, metrics, 3)[-1])["mem"].values()
            if not watch.stop():
                raise Unmeasured("the run ended before its memory was sampled")
            return watch.peak, sum(m["planned"] for m in last), sum(m["held"] for m in last)
        finally:
            watch.stop()
            process.wait()
