"""The cases of test_score_runs.sh. ZERO is the program."""
import math
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TREE, "tools"))
from score_runs import words
from score_runs.machines import Machine, RowError, find_framework, find_machine, named_memory, read_frameworks
from score_runs.program import Program
from score_runs.rows import predict_row
from score_runs.scores import number, prediction_lines, score_lines
from score_runs.tables import Table, TableError

ZERO = os.environ["ZERO"]
COLUMNS = ("id,set,quality,system,model,params_B,layers,hidden,heads,vocab,seq,global_batch,micro_batch,gpus,gpu,gpus_per_node,"
           "link_between_nodes_Gbps_per_node,tp,pp,dp,zero_stage,precision,recompute,offload,iter_s\n")
GPT = "GPT 7B,7,32,4096,32,51200,2048,"


def setUpModule():
    global folder, program, machines, frameworks
    folder = tempfile.TemporaryDirectory()
    program = Program(ZERO, folder.name)
    machines, frameworks = program.machines(), read_frameworks()


def tearDownModule():
    folder.cleanup()


def table_of(text):
    path = os.path.join(folder.name, "table.csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return Table(path)


def rows_of(text, machine=None):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda row: predict_row(row, program, machines, frameworks, machine), table_of(text).rows))


class Numbers(unittest.TestCase):
    def check(self, read):
        for text, wanted in self.examples.items():
            with self.subTest(text):
                self.assertAlmostEqual(read(text), wanted, delta=1e-12 * wanted)

    def test_texts_begin_with_numbers(self):
        self.examples = {
            "150 (their config)": 150, "  0 or 1 (not said)": 0, "1020 (4.19M tokens)": 1020, "8 x 4 x 64": 2048, "2*3": 6,
            "see config.yaml": 0, "": 0, "1e999": 0, "0.372160": 0.37216, ".5": 0.5, "1.5e-3 s": 1.5e-3, "-3": 0, "0x10": 0,
            "\u0663": 0}
        self.check(words.number)

    def test_separators_and_units_count(self):
        self.examples = {
            "2,048": 2048, "1,234,567.5": 1234567.5, "9,5": 9, "0,125": 0, "1,0245": 1, "4.19M tokens": 4.19e6, "32k": 32000,
            "3 million": 3e6, "16 MB": 16, "8xH100": 8, "12 Mbit/s": 12, "5kg": 5, "2 x 1.5k": 3000, "2048 (32 x 64)": 2048,
            "1.2T (all)": 1.2e12, "1" + "x1" * 200000: 1}
        self.check(words.number)

    def test_lengths_are_powers_of_two(self):
        self.examples = {"8k": 8192, "128K": 131072, "4M tokens": 4194304, "0.5M": 524288, "4.19M tokens": 4.19e6,
                         "2,048": 2048, "1.1k": 1100, "4 x 1k": 4096}
        self.check(words.length)

    def test_tokens_are_named(self):
        self.examples = {"4M tokens": 4194304, "4,194,304 tokens": 4194304, "1024 tokens a GPU": 1024,
                         "2 million tokens": 2 << 20, "32 x 64)": 0, "1 epoch)": 0, "of 4M tokens": 0}
        self.check(words.tokens)

    def test_parameters_are_billions(self):
        self.examples = {"125M": 0.125, "1.3T": 1300, "6.7": 6.7, "6.7B": 6.7, "7b": 7, "350m": 0.35,
                         "6738415616": 6.738415616, "": 0}
        self.check(words.billions)

    def test_names_have_sizes(self):
        self.examples = {
            "LLaMA 65B": 65, "Llama 3.1 405B": 405, "MPT-30b": 30, "MPT-125m": 0.125, "GPT-2 1.5B": 1.5,
            "llama-1B (config.yaml beside it)": 1, "Llama-2-13b-hf": 13, "GPT 1T": 1000, "GPT-3": 0, "Mixtral 8x7B": 0,
            "GPT-2 large": 0, "": 0}
        self.check(words.name_billions)

    def test_names_are_compared_by_words(self):
        self.assertTrue(words.name_has("Llama-3.1 8B", "llama 3"))
        self.assertTrue(words.name_has("LLAMA_70b", "llama-70b"))
        self.assertFalse(words.name_has("Llama 2 7B", "llama 3"))
        self.assertTrue(words.begins("full (all)", "full"))
        self.assertFalse(words.begins("fuller", "full"))

    def test_numbers_are_written_as_c_writes_them(self):
        self.assertEqual([number(6, x) for x in (2.397431, 1e-7, 2e6, 123456.7)], ["2.39743", "1e-07", "2e+06", "123457"])


class Machines(unittest.TestCase):
    def test_memory_is_read_from_names(self):
        for device, wanted in {"A100-80GB": 80e9, "A100 80 GB": 80e9, "H100 (96 GiB)": 96e9, "A10G": 0, "A100 (40G)": 40e9,
                               "A100 600 GB/s": 0, "V100": 0}.items():
            self.assertEqual(named_memory(device), wanted, device)

    def test_devices_are_found(self):
        for device, devices, name in (
                ("V100-32GB", 16, "v100-dgx2"), ("V100", 4, "v100-4"), ("a100-40GB", 8, "a100-40gb"), ("A100", 0, "a100"),
                ("A100-SXM4-40GB", 0, "a100-40gb"), ("A100-80GB", 0, "a100-dgx"), ("A100 80GB", 8, "a100-dgx"),
                ("A100 80 GB", 0, "a100-dgx"), ("A100-SXM4-80GB", 0, "a100-dgx"), ("NVIDIA A100-80GB SXM", 4, "a100-dgx"),
                ("a100-80g", 0, "a100-dgx"), ("A100 (80 GiB)", 0, "a100-dgx"), ("A100 (600 GB/s)", 0, "a100"),
                ("H100", 0, "h100-hgx"), ("8 x H100 SXM", 8, "h100-hgx"), ("H100-96GB", 8, "h100-96gb")):
            found = find_machine(machines, device, devices)
            self.assertEqual((found.name, found.devices), (name, devices or found.devices), device)
        found = find_machine(machines, "V100-16GB", 2)
        self.assertEqual((found.devices, found.memory), (2, 16e9))
        # A device of exactly this name is likelier than one whose node has as many devices.
        named, other = (Machine(device, {"device": device, "devices": devices, "memory_GB": 80})
                        for device, devices in (("A100", 4), ("A100-80GB", 8)))
        self.assertEqual(find_machine([other, named], "a100", 8).name, "A100")
        with self.assertRaisesRegex(RowError, 'no machine has the device "H10"; there are V100-32GB, A100, '):
            find_machine(machines, "H10", 0)

    def test_frameworks_are_found_in_texts(self):
        self.assertEqual(find_framework(frameworks, "Megatron-DeepSpeed, ZeRO-3 alone"), ("zero-3 alone", True))
        self.assertEqual(find_framework(frameworks, "Megatron-LM"), ("megatron", True))
        self.assertEqual(find_framework(frameworks, "of our own"), ("standard", False))


class Rows(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None

    def tells(self, row, *parts):
        for part in parts:
            self.assertIn(part, row.why)

    def has(self, row, **wanted):
        self.assertEqual({key: row.reading.run[key] for key in wanted}, wanted, row.why)

    def test_cells_are_free_text(self):
        a, b = rows_of(
            COLUMNS + "a,dev,A,Megatron-LM," + GPT + "512 (1M tokens),4,64,A100-80GB,8,1600,8 (in the node),2,4,"
            '1 (distributed optimizer),fp16,"selective, by operator",none,9.5\r\n'
            'b,dev,A,"DeepSpeed ZeRO-3, alone",' + GPT + "4 x 4 x 16,4,16,V100-32GB,16,800,,,,3,fp16,"
            "full (use_checkpoint true),cpu,\n")
        self.has(a, global_batch=512, tensor=8, stage=1, recompute="operators", gated=False, tied=True)
        self.assertEqual((a.reading.data, a.reading.accumulation), (4, 32))
        self.assertEqual(a.reading.machine.link_rate("rail"), 25e9)
        self.assertEqual((a.measured, a.scored, a.family), (9.5, True, "Megatron-LM x A100-80GB"))
        self.has(b, global_batch=256, recompute="full", optimizer_on_host=True, parameters_on_host=True)
        self.assertEqual(b.measured, 0)

    def test_empty_cells_have_defaults_that_are_told(self):
        a, b = rows_of(COLUMNS + "a,dev,A,,LLaMA 7B,6.7,,,,,,,,,A100-80GB,,,,,,,,,,\n"
                       "b,dev,A,DeepSpeed ZeRO-3,GPT 18B,18,,,,,,1024 tokens a GPU,1,384,V100-32GB,16,400,1,1,384,3,fp16,,none,\n")
        self.assertTrue(a.seconds > 0 and b.seconds > 0)
        self.tells(a, "gpus_per_node 8", "link_in_node_GBps 300", "link_between_nodes_Gbps_per_node ", "system standard", "layers 32",
                   "seq 2048", "precision bf16", "tp 1", "pp 1", "cp 1", "gpus ", "dp ", "zero_stage 1", "offload none",
                   "global_batch ", "recompute none", "micro_batch ", "grad_accum ")
        self.has(a, gated=True, tied=False)
        self.has(b, seq=1024, global_batch=384, parameters=18e9)

    def test_no_default_is_silent(self):
        columns = ("params_B layers hidden heads kv_heads ffn vocab seq gpus gpus_per_node global_batch micro_batch grad_accum tp vpp cp "
                   "dp zero_stage precision recompute offload link_in_node_GBps link_between_nodes_Gbps_per_node").split()
        for names, cells in (("gpu,model,pp", "A100-80GB,LLaMA 7B,2"), ("gpu,model,pp", "A100-80GB,GPT 7B,2"),
                             ("gpu,layers,hidden,pp", "A100-80GB,24,2048,2"),
                             ("gpu,model,pp,micro_batch", "A100-80GB,GPT 7B,2,4096 tokens"),
                             ("gpu,model,pp,global_batch", "A100-80GB,GPT 7B,2,4096 tokens a GPU")):
            row, = rows_of(names + "\n" + cells + "\n")
            self.assertGreater(row.seconds, 0, row.why)
            self.tells(row, *(column + " " for column in columns if column not in names))

    def test_what_is_computed_again_has_many_words(self):
        cases = [("none", "none", 1, None), ("no_recompute", "none", 1, None), ("full", "full", 1, None),
                 ("full, every 4th layer", "full", 4, None), ("uniform", "full", 1, "recompute full"),
                 ("granularity: full", "full", 1, "recompute full"), ("block", "full", 1, "recompute full"),
                 ("block, 3 layers", "full", 4, "recompute full, of every 4 layers one"),
                 ("1 of 2 layers", "full", 2, "recompute full, of every 2 layers one"), ("selective", "selective", 1, None),
                 ("selective granularity", "selective", 1, None), ("attention only", "selective", 1, "recompute selective"),
                 ("core_attn", "selective", 1, "recompute selective"), ("selective (op)", "operators", 1, None),
                 ("yes", "full", 1, "recompute full"),
                 ("granular", "none", 1, "recompute none, since the cell's words are not known")]
        rows = rows_of("gpu,system,layers,hidden,pp,recompute\n"
                       + "".join('A100,Megatron-LM,24,2048,2,"%s"\n' % case[0] for case in cases)
                       + "A100,torchtitan,24,2048,2,selective\n")
        for row, (text, wanted, every, told) in zip(rows, cases):
            with self.subTest(text):
                self.has(row, recompute=wanted, recompute_every=every)
                self.assertTrue(told in row.why if told else "recompute" not in row.why, row.why)
        self.has(rows[-1], recompute="operators")

    def test_what_a_row_leaves_open_is_chosen_so_that_it_fits(self):
        head = "gpu,system,layers,hidden,heads,seq,gpus,tp,global_batch,micro_batch,zero_stage\n"
        small, scores, long = rows_of(head + "V100-32GB,DeepSpeed,24,1024,16,1024,8,1,256,1,1\n"
                                      "V100-32GB,DeepSpeed,24,2048,16,2048,8,1,256,8,1\n"
                                      "V100-32GB,DeepSpeed,48,4096,32,8192,64,8,256,4,1\n")
        self.has(small, recompute="none")
        self.assertIn(scores.reading.run["recompute"], ("selective", "full"))
        self.has(long, recompute="full")
        one, = rows_of(head + "V100-32GB,Megatron-LM,24,2048,16,1024,8,1,512,,1\n")
        micro = one.reading.run["micro_batch"]
        self.assertLess(one.memory, 0.9 * 32e9)
        self.assertTrue(micro == 32 or not one.reading.fits(micro_batch=2 * micro), micro)
        self.tells(one, "micro_batch %d" % micro)

    def test_torchtitans_pipelines_are_read_as_it_runs_them(self):
        rows = rows_of("gpu,system,layers,hidden,gpus,pp,dp,micro_batch,grad_accum,global_batch\n"
                       "A100,torchtitan FSDP,24,2048,16,8,2,16,,32\n"
                       "A100,torchtitan,24,2048,16,8,2,2,8,32\n"
                       "A100,FSDP,24,2048,16,8,2,16,,32\n"
                       "A100,torchtitan FSDP Interleaved 1F1B,24,2048,16,8,2,4,,\n")
        # Its stages keep what they have gathered, too, and those of looped schedules have two chunks.
        for row, (micro, accumulation, stage, chunks) in zip(rows, ((2, 8, 1, 1), (2, 8, 1, 1), (16, 1, 3, 1), (1, 4, 1, 2))):
            self.has(row, micro_batch=micro, stage=stage, chunks=chunks)
            self.assertEqual(row.reading.accumulation, accumulation)
        self.tells(rows[0], "micro_batch 2, of a local batch divided by pp",
                   "zero_stage 1, since stages of a pipeline keep what they have gathered")

    def test_what_cannot_be_offloaded_is_told(self):
        a, b, c, d = rows_of('gpu,layers,hidden,zero_stage,offload\nA100,24,2048,1,"cpu: optimizer, parameters"\n'
                             "A100,24,2048,1,to a shelf\nA100,24,2048,1,cpu where needed\nV100-32GB,24,2048,3,nvme\n")
        self.tells(a, "offload of the optimizer alone, since zero_stage is 1")
        self.has(a, optimizer_on_host=True, parameters_on_host=False)
        self.tells(b, "offload none, since the cell's words are not known")
        self.tells(c, "offload none, as if it were not needed")
        self.assertFalse({"optimizer_on_host", "parameters_on_host"} & {*b.reading.run, *c.reading.run})
        told = "is not known to have NVMe" in d.why
        self.assertEqual(d.reading.run["optimizer_on_nvme"], not told)

    def test_frameworks_have_defaults_of_their_own(self):
        systems = (("Megatron-DeepSpeed", 0), ("Megatron-LM", 0), ("GPT-NeoX", 1), ("", 1))
        rows = rows_of(COLUMNS + "".join("a,dev,A,%s,%s512,4,64,A100-80GB,8,,8,1,8,,fp16,,none,\n" % (system, GPT)
                                         for system, _ in systems))
        self.assertEqual([row.reading.run["stage"] for row in rows], [stage for _, stage in systems])
        self.assertEqual([row.reading.run["recompute"] for row in rows[2:]], ["full", "none"])
        self.tells(rows[2], "recompute full")

    def test_systems_have_words_of_their_own(self):
        rows = rows_of("gpu,system,layers,hidden,gpus,tp,zero_stage,precision\n"
                       "H100-80GB,DeepSpeed ZeRO++,24,2048,64,1,3,bf16\nH100-80GB,torchtitan async TP,24,2048,64,8,3,mxfp8\n"
                       "H100-80GB,transformers LoRA,24,2048,64,1,3,fp8 rowwise\nA100,Megatron-LM,24,2048,64,2,1,tf32\n")
        self.has(rows[0], wire_bits_parameters=8, wire_bits_gradients=4, fully_sharded_in_node=True)
        self.tells(rows[0], "as ZeRO++ has by default")
        self.has(rows[1], overlaps_tensor=True, products="fp8", block_scales=True, sequence_parallel=True)
        self.has(rows[2], frozen=True, products="bf16", block_scales=False)
        self.has(rows[3], products="fp32")
        peak = rows[3].reading.machine.file["peak_TFLOPS"]
        self.assertEqual(peak["fp32"], peak["16_bit"] / 2)

    def test_numbers_may_have_separators_and_units(self):
        a, b, c, d = rows = rows_of(
            COLUMNS + 'a,dev,A,Megatron,GPT,,24,"2,304",24,"51,200",2k,4M tokens,4,64,A100-80GB,8,,8,1,8,1,"bf16 (fp32 gradients)",'
            "full,none,\n"
            'b,dev,A,DeepSpeed,GPT,125M,,,,,2048,2048 (32 x 64),4,64,A100-80GB,8,,1,1,64,ZeRO-2,fp32,"full, every 4th layer",'
            "no cpu offload,\n"
            'c,dev,A,DeepSpeed,GPT 13B,13,,,,,,512 (of 1 micro-batch),"8,192 tokens a GPU",64,A100-80GB,8,,1,1,64,3,'
            '"mixed fp16/fp32",full,cpu: activations,\n'
            "d,dev,A,DeepSpeed,GPT 13B,13,,,,,,512 (1 epoch),,64,A100-80GB,8,,1,1,64,3,tf32,full,none,\n")
        for row in rows:
            self.assertGreater(row.seconds, 0, row.why)
        self.has(a, width=2304, vocab=51200, seq=2048, global_batch=2048, products="bf16")
        self.has(b, parameters=125e6, seq=2048, global_batch=2048, products="fp32", stage=2, recompute_every=4)
        # The tokens of a micro-batch are those of one sample, where nothing says how long these are.
        self.has(c, seq=8192, micro_batch=1, products="bf16", checkpoints_on_host=True)
        self.assertFalse({"optimizer_on_host", "parameters_on_host"} & {*b.reading.run, *c.reading.run})
        self.has(d, seq=2048, global_batch=512, products="fp32")

    def test_sizes_are_read_from_names(self):
        models = ("LLaMA 65B,,", "Llama 3.1 405B,,", "Llama 2 7B,7,", "GPT 39B,,48", "GPT-2 large,,")
        rows = rows_of(COLUMNS + "".join("a,dev,A,DeepSpeed,%s,,,,,512,1,64,A100-80GB,8,,1,1,64,3,fp16,full,none,\n" % model
                                         for model in models))
        self.has(rows[0], width=8192, ffn=22016)
        self.has(rows[1], layers=126, seq=8192)
        self.has(rows[2], ffn=11008)
        self.has(rows[3], layers=48, width=8192)
        self.tells(rows[3], "params_B 39")
        self.assertIsNone(rows[4].reading)
        self.tells(rows[4], "tells no size")

    def test_cells_without_numbers_have_defaults(self):
        rows = rows_of(COLUMNS + "".join("a,dev,A,DeepSpeed,GPT 13B,13,,,,,,%s,64,A100-80GB,8,,1,1,64,3,fp16,full,none,\n" % cells
                                         for cells in ("512,about 1024 tokens a GPU", "tokens per GPU: 2048,0 tokens a GPU")))
        for row in rows:
            self.assertGreater(row.seconds, 0, row.why)
            self.tells(row, "seq 2048", "micro_batch ")

    def test_contradictions_are_told(self):
        row, odd = rows_of(
            COLUMNS + "a,dev,A,DeepSpeed,GPT 7B,47,32,4096,32,51200,2048,64,1,128,A100-80GB,8,800,1,1,64,3,fp16,full,none,\n"
            "b,dev,A,Megatron-LM,GPT,,24,3072,12,51200,2048,64,1,64,A100-80GB,8,800,8,1,8,1,fp16,full,none,\n")
        self.tells(row, "dp 128", "global_batch 128, a multiple", "params_B 47 for states")
        self.tells(odd, "12 heads of attention cannot be divided among 8 tensor ranks; the row is simulated nevertheless")
        self.assertGreater(odd.seconds, 0)

    def test_columns_may_lack(self):
        a, b = rows_of("layers,hidden,global_batch,gpus\n24,2048,64,8\n\n24,2048,128,8\n", program.machine("H100"))
        self.assertGreater(a.seconds, 0)
        self.assertEqual((a.id, b.id, a.family), ("line 2", "line 4", "(not said) x H100-80GB"))
        self.tells(a, "links of h100-hgx")

    def test_rows_that_cannot_be_simulated_stay_with_the_reason(self):
        rows = rows_of(COLUMNS + "a,dev,A,Megatron," + GPT + "512,4,64,Z80,8,,8,2,4,1,fp16,full,none,9.5\n"
                       "b,dev,A,Megatron," + GPT + "512,4,64,A100,8,,8,3,4,1,fp16,full,none,9.5\n"
                       '"c, last",context,A,Megatron,,,,,,,,512,4,64,A100,8,,8,2,4,1,,full,none,9.5\n')
        for row, part in zip(rows, ("Z80", "tensor 8 x pipeline 3", "params_B")):
            self.tells(row, part)
        self.assertEqual([row.scored for row in rows], [True, True, False])
        lines = prediction_lines(rows)
        self.assertEqual(lines[0], "id,predicted_s,predicted_GB,why")
        self.assertTrue(lines[1].startswith('a,,,"no machine'))
        self.assertTrue(lines[3].startswith('"c, last",,,'))
        self.assertIn("    2 rows could not be predicted; the column why of --out FILE tells the reasons", score_lines(rows))


class Tables(unittest.TestCase):
    def refused(self, text, part):
        with self.assertRaises(TableError) as caught:
            table_of(text)
        self.assertIn(part, str(caught.exception))

    def test_bad_lines_are_named(self):
        self.refused("", "is empty")
        self.refused("id,gpu\na\0,b\n", "bytes that are 0")
        self.refused("id,gpu,iter_s\na,A100,1\n\nb,A100\n",
                     'line 4: 2 cells, where the first line names 3 columns; the first that lacks one is "iter_s"')
        self.refused('id,gpu\na,"two\nlines"\nb,c,d\n',
                     "line 4: 3 cells, where the first line names 2 columns; a cell with a comma")

    def test_cells_may_be_quoted(self):
        table = table_of('\ufeffID,x\r\n"a ""b"", c"d,5" pipe\r"two\nlines",\n,\n')
        self.assertEqual([row.cells for row in table.rows], [['a "b", cd', '5" pipe'], ["two\nlines", ""], ["", ""]])
        self.assertEqual([row.line for row in table.rows], [2, 3, 5])
        self.assertEqual((table.rows[0].cell("id"), table.rows[0].cell("gpu")), ('a "b", cd', ""))


class Scores(unittest.TestCase):
    def test_score_is_of_families_and_all(self):
        rows = rows_of(COLUMNS + "".join("%s,A,%s,%s512,4,64,A100,8,,8,2,4,1,fp16,full,none,1\n" % (head, system, GPT)
                                         for head, system in (("a,dev", "Megatron"), ("b,dev", "Megatron"), ("c,context", "Other"))))
        rows[0].measured = rows[0].seconds * math.exp(0.1)  # predicted too short, and too long
        rows[1].measured = rows[1].seconds * math.exp(-0.3)
        self.assertEqual(score_lines(rows)[1:3], ["    2     20.0%    28.0%        20.0%    20.0%  Megatron x A100",
                                                  "    2     20.0%    28.0%        20.0%    20.0%  all"])

    def test_score_has_memory_and_what_choosing_costs(self):
        rows = rows_of("id,gpu,params_B,layers,hidden,seq,global_batch,micro_batch,gpus,tp,recompute,iter_s,memory_GB_per_gpu,"
                       "memory_kind\na,A100-80GB,7,32,4096,2048,512,1,64,8,full,8,40,\n"
                       'b,A100-80GB,7,32,4096,2048,512,4,64,8,full,10,40,"peak allocated, of one"\n'
                       "c,A100-80GB,7,32,4096,2048,128,4,64,8,full,10,,\n")
        rows[0].seconds = 2 * rows[1].seconds  # the slower of two rows of one batch is predicted to be the faster
        rows[1].memory = 44e9
        lines = score_lines(rows)
        self.assertIn("    1      9.5%     9.5% (largest)  memory, where it is the peak allocated", lines)
        self.assertTrue(any(line.endswith("(largest)  memory, where it is measured otherwise") for line in lines))
        self.assertIn("    1     25.0%    25.0% (mean, largest)  what choosing by prediction costs, among rows of one model, devices "
                      "and batch", lines)


# Predictions of the built-in machines, as the program printed them when it still read tables itself.
RUNS = (
    "id,set,quality,system,model,params_B,layers,hidden,heads,kv_heads,ffn,vocab,seq,global_batch,micro_batch,gpus,gpu,gpus_per_node,tp,"
    "pp,zero_stage,precision,recompute,offload,iter_s,tokens_per_s_per_gpu,memory_GB_per_gpu\n"
    'a,dev,A,"Megatron-LM, its own",GPT,,24,2304,24,,,51200,2048,512 (of 1 micro-batch),4,32,A100-80GB,8,1,1,1,bf16,none,none,5,,\n'
    "b,dev,A,Megatron-LM,GPT,,24,2304,24,,,51200,2048,512,4,32,Abacus 9000,8,1,1,1,bf16,none,none,5,,\n"
    "c,test,B,torchtitan,llama,70,80,8192,64,8,28672,128256,8192,512,1,512,H100-80GB,8,8,1,3,bf16,full,none,,600,60\n")
PREDICTED = """\
id,predicted_s,predicted_GB,why
a,2.39743,78.55,link_in_node_GBps 300; link_between_nodes_Gbps_per_node 1600; cp 1; dp 32; kv_heads 24; ffn 9216; params_B 1.647; \
grad_accum 4
b,,,"no machine has the device ""Abacus 9000""; there are V100-32GB, A100, A100-80GB, A100-40GB, H100-80GB, H100-96GB, H200, B200, \
GB200, GB300"
c,17.1507,5.422,link_in_node_GBps 450; link_between_nodes_Gbps_per_node 3200; cp 1; dp 64; grad_accum 8
"""
SCORE = """\
 rows   median      90th  a constant's  90th  family
    1     73.5%    73.5%         0.0%     0.0%  Megatron-LM, its own x A100-80GB
    1     22.8%    22.8%         0.0%     0.0%  torchtitan x H100-80GB
    2     48.2%    68.4%         0.0%     0.0%  all
    1    240.4%   240.4% (largest)  memory, where it is measured otherwise
    1 rows could not be predicted; the column why of --out FILE tells the reasons
"""


class Tool(unittest.TestCase):
    def run_tool(self, text, *options):
        """(exit code, output, messages, the file of --out)"""
        with tempfile.TemporaryDirectory() as here:
            with open(os.path.join(here, "runs.csv"), "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([os.path.join(TREE, "tools", "score-runs"), "--zero", ZERO, "runs.csv", "--out", "predicted.csv",
                                   *options], cwd=here, capture_output=True, text=True, timeout=120, check=False)
            path = os.path.join(here, "predicted.csv")
            predicted = None
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    predicted = file.read()
        return done.returncode, done.stdout, done.stderr, predicted

    def test_a_table_is_predicted_and_scored(self):
        self.maxDiff = None
        self.assertEqual(self.run_tool(RUNS), (0, SCORE, "predicted.csv: the predictions\n", PREDICTED))

    def test_one_machine_may_be_that_of_all_rows(self):
        code, text, _, predicted = self.run_tool("params_B,micro_batch,gpus,why\n13,about 1024 tokens a GPU,64,\u00e4\n13,,64,\n",
                                                 "--machine", "h100-hgx")
        self.assertEqual((code, text), (0, "no row says what was measured\n"))
        self.assertRegex(predicted, r"\nline 2,[0-9.]+,[0-9.]+,\"?gpu, gpus_per_node and links of h100-hgx; ")

    def test_what_is_no_table_is_refused(self):
        self.assertEqual(self.run_tool("id,set\na,dev\n"),
                         (65, "", 'score-runs: runs.csv, line 1: there is no column "gpu", and no machine for all rows\n', None))
        self.assertEqual(self.run_tool("id,gpu\na\n")[0], 65)
        code, _, message, _ = self.run_tool(RUNS, "--machine", "abacus")
        self.assertEqual((code, message[:50]), (64, 'score-runs: no machine "abacus"; there are v100-dgx2, '[:50]))
        self.assertEqual(self.run_tool("", "missing.csv")[0], 2)


unittest.main()
