"""Machines, as tables name their devices, and frameworks, as they name their systems."""
import copy
import json
import os
import re

from score_runs.words import folded, has

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class RowError(Exception):
    """A row that cannot be simulated, with the reason."""


class Machine:
    """A machine: its name, and what its file has (docs/scale.md)."""

    def __init__(self, name, file):
        self.name, self.file = name, file

    def copy(self):
        return Machine(self.name, copy.deepcopy(self.file))

    @property
    def device(self):
        return self.file["device"]

    @property
    def devices(self):  # of a node
        return self.file["devices"]

    @property
    def memory(self):  # bytes of a device
        return self.file["memory_GB"] * 1e9

    def link_rate(self, link):  # bytes a second
        return self.file["links"][link]["GB_s"] * 1e9


def named_memory(device):
    """The memory in a device's name in bytes, as in "A100-80GB" and "A100 80 GB"; 0: none. Digits within a word do not
    count: "A10G" has no 10 GB."""
    match = re.search(r"(?:^|(?<![0-9A-Za-z.]))([0-9]+) *[gG][iI]?[bB]?(?![0-9A-Za-z/])", device)
    return float(match.group(1)) * 1e9 if match else 0.0


def is_kind(text, device):
    """Whether a text has the kind of a device ("A100" of "A100-80GB") as a word."""
    kind = re.split("[- ]", folded(device))[0]
    return re.search(r"(?<![0-9a-z])%s(?![0-9])" % re.escape(kind), folded(text)) is not None


def likeness(machine, device, memory, devices):
    """How well a machine matches a device of a table; 0: not at all. The device's exact name decides, then the memory in the
    name (a machine with this memory in its own name matches best), then the devices of a node."""
    if not is_kind(device, machine.device):
        return 0
    same = memory > 0 and memory == machine.memory
    named = memory > 0 and memory == named_memory(machine.device)
    return 1 + 8 * (folded(device) == folded(machine.device)) + 2 * same + 2 * named + (devices == machine.devices)


def find_machine(machines, device, devices):
    """A copy of the machine of a device ("A100-80GB", "H100"), the best match if there are several, with the memory in its name
    and `devices` a node; 0: as usual."""
    memory = named_memory(device)
    best = max(machines, key=lambda machine: likeness(machine, device, memory, devices))
    if likeness(best, device, memory, devices) == 0:
        raise RowError(no_machine(machines, device))
    found = best.copy()
    if devices > 0:
        found.file["devices"] = devices
    if memory > 0:
        found.file["memory_GB"] = memory / 1e9
    return found


def no_machine(machines, device):
    devices = dict.fromkeys(machine.device for machine in machines)
    return 'no machine has the device "%s"; there are %s' % (device, ", ".join(devices))


def read_frameworks():
    """The frameworks in their order, by name: those of machines/frameworks.json below the working directory, or of the
    tree. The last one is a well-made framework."""
    here = os.path.join("machines", "frameworks.json")
    with open(here if os.path.exists(here) else os.path.join(TREE, here), encoding="utf-8") as file:
        return json.load(file)


def find_framework(frameworks, system):
    """(name, whether the text names it) of the framework whose name a free text has ("Megatron-DeepSpeed, alone")."""
    for name in frameworks:
        if has(system, name):
            return name, True
    return list(frameworks)[-1], False
