"""What the cells of a row mean, and what an empty one is taken for: a row becomes a question to zero simulate."""
import math
import re

from score_runs import words
from score_runs.machines import RowError, find_framework, find_machine
from score_runs.models import batch_tokens, complete_shape, parameters_of, read_model
from score_runs.recompute import read_recompute

MOST_DEVICES = 10000000
MANY_SAMPLES = 1e6  # from this number on a batch counts tokens, whatever its cell calls them
LONGEST = 1 << 20   # the longest sequence that a remark after a batch is taken for
CONTRADICTS = 0.15  # |log| of the parameters over those of the shape from which on `why` mentions it
REMARK_BYTES = 199  # of one remark in `why`

START = {
    "devices": 0, "tensor": 1, "context": 1, "pipeline": 1, "chunks": 1, "sequence_parallel": False, "global_batch": 0,
    "micro_batch": 0, "stage": 0, "recompute": "none", "recompute_every": 1, "gated": False, "tied": False, "unchecked": True,
}


class Reading:
    """One row while it is read.

    run, machine: the question that it becomes (docs/scale.md: the file of --run, and that of a machine)
    framework, framework_name: what machines/frameworks.json has of its system
    accumulation: not part of the question, since it follows from the samples of a step
    why: remarks: a default that is taken, or how a cell is understood
    """

    def __init__(self, row, program, machines, frameworks, machine):
        self.row, self.program = row, program
        self.system, self.model = row.cell("system"), row.cell("model")
        self.run, self.accumulation, self.why = dict(START), 0, []
        self.machine = self.read_machine(machines, machine)
        self.framework_name, known = find_framework(frameworks, self.system)
        self.framework = frameworks[self.framework_name]
        if not known:
            self.remark("system %s" % self.framework_name)
        # Frameworks that write scores on older devices do not where there are kernels against it.
        self.flash = self.framework.get("flash", False) or self.machine.file["peak_TFLOPS"]["8_bit"] > 0

    def cell(self, column):
        return self.row.cell(column)

    def number(self, column):
        return words.number(self.cell(column))

    def whole(self, column, most):
        return int(min(self.number(column), most))

    def length(self, column, most):
        return int(min(words.length(self.cell(column)), most))

    def remark(self, text):
        self.why.append(text[:REMARK_BYTES])

    def fits(self, **changes):
        """Whether the run with some changes fits into its devices' memory, with some to spare."""
        answer, _ = self.program.ask(dict(self.run, **changes), self.machine, self.framework_name)
        return answer is not None and answer["memory_bytes"] < 0.9 * self.machine.memory

    @property
    def model_devices(self):
        return self.run["tensor"] * self.run["pipeline"] * self.run["context"]

    @property
    def data(self):
        return self.run["devices"] // self.model_devices

    def read_machine(self, machines, machine):
        devices, device = self.whole("gpus_per_node", 1e4), self.cell("gpu")
        if machine:
            self.remark("gpu, gpus_per_node and links of %s" % machine.name)
            return machine.copy()
        found = find_machine(machines, device, devices)
        if words.folded(device) != words.folded(found.device):
            self.remark("gpu %s, as in %s" % (found.device, found.name))
        if devices <= 0:
            self.remark("gpus_per_node %d" % found.devices)
        self.read_links(found)
        return found

    def read_links(self, machine):
        links = machine.file["links"]
        inside, outside = self.number("link_in_node_GBps"), self.number("link_between_nodes_Gbps_per_node")
        # A remark after a rate inside a node says that it is somebody's setting, not the sheet's.
        if inside > 0 and "(" not in self.cell("link_in_node_GBps"):
            links["in_node"]["GB_s"] = inside
        else:
            self.remark("link_in_node_GBps %g" % (machine.link_rate("in_node") / 1e9))
        if outside <= 0:
            node = machine.link_rate("rail") / links["rail"]["sharers"] * machine.devices
            self.remark("link_between_nodes_Gbps_per_node %g" % (node * 8 / 1e9))
            return
        for link in ("rail", "spine"):
            links[link]["GB_s"] = outside / 8 / machine.devices
            links[link]["sharers"] = 1


def read_axis(reading, column):
    """The ranks of an axis: one where the row does not say."""
    ranks = reading.whole(column, 1e4)
    if ranks <= 0:
        reading.remark("%s 1" % column)
    return ranks if ranks > 0 else 1


def read_chunks(reading):
    run = reading.run
    run["chunks"] = reading.whole("vpp", 1e5)
    if run["chunks"] <= 0 and run["pipeline"] > 1:
        looped = reading.framework.get("interleaved") or words.has(reading.system, "interleaved")
        run["chunks"] = 2 if looped and run["layers"] >= 2 * run["pipeline"] else 1
        reading.remark("vpp %d" % run["chunks"])
    if run["chunks"] > 1 and run["pipeline"] == 1:
        reading.remark("vpp 1, since there are no pipeline stages")


def read_grid(reading):
    run = reading.run
    run["devices"] = reading.whole("gpus", MOST_DEVICES)
    run["tensor"], run["pipeline"], run["context"] = (read_axis(reading, column) for column in ("tp", "pp", "cp"))
    model, data = reading.model_devices, reading.whole("dp", 1e6)
    if run["devices"] <= 0:
        devices = data * model if data > 0 else max(model, 8 * reading.machine.devices)
        run["devices"] = min(devices, MOST_DEVICES)
        reading.remark("gpus %d" % run["devices"])
    # The columns of a row may contradict each other; the number of devices is the surest.
    if data != reading.data:
        reading.remark("dp %d" % reading.data)
    read_chunks(reading)


def is_wide(precision):
    """Whether products are in 32 bits. "bf16 (fp32 gradients)" means products in 16: the 32 bits are of something else."""
    sixteen = words.has(precision, "16") or words.has(precision, "amp")
    for name in ("fp32", "float32", "tf32"):
        text = words.skip_spaces(precision)
        if words.begins(text, name) and words.skip_spaces(text[len(name):])[:1] in ("", "(", ","):
            return True
        if not sixteen and words.has(precision, name):
            return True
    return False


def read_precision(reading):
    run, precision, peak = reading.run, reading.cell("precision"), reading.machine.file["peak_TFLOPS"]
    run["block_scales"] = words.has(precision, "mx") or words.has(precision, "fp4")
    run["products"] = "bf16"
    if words.has(precision, "fp4"):
        run["products"] = "fp4"
    elif words.has(precision, "rowwise"):
        run["products"] = "bf16"  # what its products gain, its scales cost
    elif words.has(precision, "fp8") or words.has(precision, "float8") or words.has(reading.system, "float8"):
        run["products"] = "fp8"
    elif is_wide(precision):
        run["products"] = "fp32"
        if words.has(precision, "tf32"):  # half the rate of 16 bits, where there is such
            peak["fp32"] = max(peak["fp32"], peak["16_bit"] / 2)
    elif not words.has(precision, "16") and not words.has(precision, "half"):
        reading.remark("precision bf16")


def stage_of(text):
    """The stage of ZeRO that a text says: "3", "ZeRO-3", "stage 3"; -1: none."""
    named = words.has(text, "zero") or words.has(text, "stage")
    text = words.skip_spaces(text)
    if not re.match("[0-9]", text):
        match = re.search("[0-3].*", text, re.DOTALL) if named else None
        text = match.group() if match else None
    return -1 if text is None else int(min(3, words.number(text)))


def says_no_offload(reading, text):
    if not text:
        reading.remark("offload none")
    elif words.has(text, "where needed"):
        reading.remark("offload none, as if it were not needed")
    else:
        return words.begins(text, "none") or words.begins(text, "no")
    return True


def read_host(reading, text, optimizer, parameters):
    """Parameters leave their devices in stage 3 alone."""
    run = reading.run
    refused = words.has(text, "parameters N")
    run["optimizer_on_host"] = not words.has(text, "optimizer N")
    run["parameters_on_host"] = run["stage"] >= 3 and not refused and (parameters or not optimizer)
    if parameters and run["stage"] < 3 and not refused:
        reading.remark("offload of the optimizer alone, since zero_stage is %d" % run["stage"])


def has_nvme(machine):
    nvme = machine.file.get("nvme", {})
    return nvme.get("read_GB_s", 0) > 0 and nvme.get("write_GB_s", 0) > 0


def read_offload(reading):
    """Reads what is kept outside of devices."""
    run, text = reading.run, words.skip_spaces(reading.cell("offload"))
    if says_no_offload(reading, text):
        return
    cpu, optimizer, parameters = words.has(text, "cpu"), words.has(text, "optim"), words.has(text, "param")
    if words.has(text, "activation") and not optimizer and not parameters:
        run["checkpoints_on_host"] = cpu
        if not cpu:
            reading.remark("offload none, since activations go to the cpu alone")
        return
    nvme = words.has(text, "nvme")
    if nvme and not has_nvme(reading.machine):
        reading.remark("offload cpu, since %s is not known to have NVMe" % reading.machine.name)
        nvme, cpu = False, True
    run["optimizer_on_nvme"] = nvme
    if cpu:
        read_host(reading, text, optimizer, parameters)
    elif not nvme:
        reading.remark("offload none, since the cell's words are not known")


def read_stage(reading):
    run, system = reading.run, reading.system
    run["stage"] = stage_of(reading.cell("zero_stage"))
    if run["stage"] < 0:
        sharded = words.has(system, "fsdp") or words.has(system, "zero-3")
        run["stage"] = 3 if sharded else 0 if reading.framework.get("whole_states") else 1
        reading.remark("zero_stage %d" % run["stage"])
    # In torchtitan's pipelines, stages keep the parameters that they have gathered until the step ends, and reduce
    # gradients then: exchanges and memory are those of stage 1.
    if run["pipeline"] >= 2 and run["stage"] >= 3 and words.has(system, "torchtitan"):
        run["stage"] = 1
        reading.remark("zero_stage 1, since stages of a pipeline keep what they have gathered")


def read_states(reading):
    run, system = reading.run, reading.system
    read_stage(reading)
    read_offload(reading)
    run["frozen"] = words.has(system, "lora")
    if words.has(system, "zero++"):
        run.update(wire_bits_parameters=8, wire_bits_gradients=4, fully_sharded_in_node=True)
        reading.remark("parameters sent in 8 bits, gradients in 4, and a second copy of the parameters in each node, as ZeRO++ "
                     "has by default")
    if words.has(system, "async tp"):
        run["overlaps_tensor"] = True
    # Frameworks with flash attention divide tokens between tensor ranks, too.
    run["sequence_parallel"] = run["tensor"] > 1 and reading.flash


def set_seq(reading, tokens):
    """Sets the tokens of a sample if no cell has them."""
    if reading.run["seq"] <= 0 < tokens:
        reading.run["seq"] = tokens
        reading.remark("seq %d" % tokens)


def read_micro_batch(reading):
    """Reads the samples of a micro-batch, or its tokens: without `seq` they are one sample."""
    run, count = reading.run, reading.length("micro_batch", 1e9)
    if words.tokens(reading.cell("micro_batch")) > 0:
        set_seq(reading, count)
        count = max(1, count // max(1, run["seq"]))
        reading.remark("micro_batch %d" % count)
    run["micro_batch"] = min(count, 100000)


def divide_local_batch(reading):
    """torchtitan's local batch is that of a pipeline, which divides it into one micro-batch for each of its ranks, unless the
    row has `grad_accum`."""
    run = reading.run
    if run["pipeline"] < 2 or run["micro_batch"] <= 0 or reading.accumulation > 0 or not words.has(reading.system, "torchtitan"):
        return
    if words.length(reading.cell("global_batch")) <= 0:
        reading.accumulation = min(run["micro_batch"], run["pipeline"])
    if run["micro_batch"] < 2:
        return
    run["micro_batch"] = max(1, run["micro_batch"] // run["pipeline"])
    reading.remark("micro_batch %d, of a local batch divided by pp" % run["micro_batch"])


def read_seq(reading, samples):
    """Reads the sequence's length off a batch of samples whose tokens stand in parentheses."""
    seq = words.rounded(batch_tokens(reading) / samples / 256) * 256 if samples > 0 else 0
    usual = 4096 if words.has(reading.model, "llama 2") else 2048
    set_seq(reading, seq if 1 <= seq <= LONGEST else usual)


def usual_batch(reading, ranks):
    """The default of the samples of a step."""
    run = reading.run
    if run["micro_batch"] > 0 and reading.accumulation > 0:
        return run["micro_batch"] * reading.accumulation * ranks
    if run["micro_batch"] > 0:
        return run["micro_batch"] * ranks * (64 if run["pipeline"] > 1 else 1)
    return max(1, (4 << 20) // run["seq"] // ranks) * ranks


def read_batch_of_device(reading, tokens, ranks):
    """Reads a batch that is given as the tokens of a device. Returns the samples of a step."""
    run = reading.run
    if run["micro_batch"] <= 0:
        reading.remark("micro_batch 1")
        run["micro_batch"] = 1
    set_seq(reading, int(tokens / run["micro_batch"]))
    reading.accumulation = 1
    return float(run["micro_batch"]) * ranks


def read_batch(reading):
    """Reads the samples of a step and of a micro-batch."""
    run, batch = reading.run, reading.cell("global_batch")
    samples, ranks = words.length(batch), max(1, reading.data)
    read_micro_batch(reading)
    reading.accumulation = reading.whole("grad_accum", 1e6)
    divide_local_batch(reading)
    tokens = samples >= MANY_SAMPLES or words.tokens(batch) > 0
    of_device = tokens and (words.has(batch, "tokens a gpu") or words.has(batch, "tokens per gpu"))
    if of_device:
        samples = read_batch_of_device(reading, samples, ranks)
    read_seq(reading, 0 if tokens and not of_device else samples)
    if tokens and not of_device:
        samples = max(1, words.rounded(samples / run["seq"]))
    run["global_batch"] = int(min(samples, 1e12))
    if run["global_batch"] <= 0:
        run["global_batch"] = usual_batch(reading, ranks)
        tokens = True
    if tokens:
        reading.remark("global_batch %d" % run["global_batch"])


def choose_micro_batch(reading):
    """The largest micro-batch that fits, up to 32 samples, and leaves a pipeline what fills it."""
    run, ranks, best = reading.run, max(1, reading.data), 1
    samples = max(1, run["global_batch"] // ranks)
    micro = 2
    while micro <= 32 and samples % micro == 0:
        if not reading.fits(micro_batch=micro, global_batch=samples * ranks):
            break
        if run["pipeline"] > 1 and samples // micro < 8 * run["pipeline"]:
            break
        best = micro
        micro *= 2
    run["micro_batch"] = best
    reading.remark("micro_batch %d" % best)


def set_accumulation(reading):
    """Sets the accumulation that the samples of a step need, rounded if ranks do not divide them. Returns the samples in the
    row."""
    run, samples = reading.run, reading.run["global_batch"]
    steps = samples / max(1, run["micro_batch"] * reading.data)
    reading.accumulation = max(1, int(steps + 0.5))
    run["global_batch"] = run["micro_batch"] * reading.accumulation * max(1, reading.data)
    return samples


def remark_on_completed(reading, given, samples, odd):
    """Adds remarks on what completing has filled in, and on contradictions. given: the run before it was complete."""
    run = reading.run
    shape = parameters_of(run)
    for key in ("heads", "kv_heads", "ffn"):
        if given[key] <= 0:
            reading.remark("%s %d" % (key, run[key]))
    if reading.number("params_B") <= 0 and reading.number("layers") > 0 and reading.number("hidden") > 0:
        reading.remark("params_B %.4g" % (run["parameters"] / 1e9))
    if reading.whole("grad_accum", 1e6) != reading.accumulation:
        reading.remark("grad_accum %d" % reading.accumulation)
    if run["global_batch"] != samples:
        reading.remark("global_batch %d, a multiple of micro_batch x dp" % run["global_batch"])
    if odd:
        reading.remark("%s; the row is simulated nevertheless" % odd)
    if abs(math.log(run["parameters"] / shape)) > CONTRADICTS:
        reading.remark("params_B %.4g for states, and %.4g for products of the shape" % (run["parameters"] / 1e9, shape / 1e9))


class Prediction:
    """What a row has become.

    id                      its id, or its line where it has none
    family                  of the score: system and device
    why                     the defaults taken; of a row that is not predicted, the reason
    reading                 None, or the row as it was read
    seconds, memory         predicted, of a step and in bytes of a device; 0: not predicted
    measured, measured_memory   the same in the table; 0: not there
    allocated               whether that memory is the peak of what was allocated
    scored                  whether the row is a test: not a "context" row
    """

    def __init__(self, row, machine):
        device = row.cell("gpu") or (machine.device if machine else "")
        self.id = row.cell("id") or "line %d" % row.line
        self.family = "%s x %s" % (row.cell("system") or "(not said)", device)
        self.why, self.reading = "", None
        self.seconds = self.memory = self.measured = 0.0
        self.measured_memory = words.number(row.cell("memory_GB_per_gpu")) * 1e9
        self.allocated = words.has(row.cell("memory_kind"), "peak allocated")
        self.scored = not row.cell("set").startswith("context") and not row.cell("quality").startswith("N")


def measured_seconds(reading):
    """The seconds of a step that a row measured; 0: it does not say them."""
    run = reading.run
    seconds, tokens = reading.number("iter_s"), reading.number("tokens_per_s_per_gpu")
    if seconds > 0 or tokens <= 0 or reading.number("global_batch") <= 0 or reading.number("gpus") <= 0:
        return seconds
    return float(run["global_batch"]) * run["seq"] / (tokens * run["devices"])


def read_row(row, program, machines, frameworks, machine):
    """A row as a complete question; the run before it was complete, and the samples of a step in the row, for remarks."""
    reading = Reading(row, program, machines, frameworks, machine)
    read_model(reading)
    read_precision(reading)
    read_grid(reading)
    read_states(reading)
    read_batch(reading)
    read_recompute(reading)
    if reading.run["micro_batch"] <= 0:
        choose_micro_batch(reading)
    samples, given = set_accumulation(reading), dict(reading.run)
    complete_shape(reading.run)
    return reading, given, samples


def predict_row(row, program, machines, frameworks, machine):
    """Predicts a row. machine: None, or that of all rows."""
    found = Prediction(row, machine)
    try:
        reading, given, samples = read_row(row, program, machines, frameworks, machine)
    except RowError as reason:
        found.why = str(reason)
        return found
    found.reading = reading
    # What a training would refuse gets a remark, and is simulated nevertheless.
    answer, odd = program.ask(dict(reading.run, unchecked=False), reading.machine, reading.framework_name)
    if odd:
        answer, refused = program.ask(reading.run, reading.machine, reading.framework_name)
        if refused:
            found.why = refused
            return found
    found.seconds, found.memory, found.measured = answer["step_s"], answer["memory_bytes"], measured_seconds(reading)
    remark_on_completed(reading, given, samples, odd)
    found.why = "; ".join(reading.why)
    return found
