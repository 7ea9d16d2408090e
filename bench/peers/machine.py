"""What bench/compare says about where it ran: the machine and the versions."""
import os
import pathlib
import platform
import re
import subprocess


def output_of(*command):
    try:
        return subprocess.run(command, text=True, capture_output=True, check=False).stdout.strip()
    except OSError:
        return ""


def machine():
    """Processor, cores, instruction sets that matter to products in 16 bits, memory."""
    found = dict(re.findall(r"^([^:\n]+): +(.*)$", output_of("lscpu"), re.M))
    flags = found.get("Flags", "").split()
    has = [f for f in ("avx2", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_bf16", "amx_fp16") if f in flags]
    lacks = [f for f in ("avx512f", "avx512_bf16", "amx_bf16") if f not in flags]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (f"{found.get('Model name', platform.machine())} (family {found.get('CPU family', '?')}, model {found.get('Model', '?')}), "
            f"{len(os.sched_getaffinity(0))} cores, L3 {found.get('L3 cache', found.get('L3', '?'))}, {memory:.0f} GB; {' '.join(has)}"
            + (f"; no {', '.join(lacks)}" if lacks else ""))


def versions(zero, python):
    here = str(pathlib.Path(__file__).resolve().parent)
    revision = output_of("git", "-C", here, "describe", "--always", "--dirty")
    probe = ("import importlib.metadata as m\nfor n in ('torch', 'deepspeed'):\n try: print(n, m.version(n), end=', ')\n"
             " except Exception: print(n, 'not installed', end=', ')")
    onednn = re.search(r"^oneDNN +(\S+)", output_of(zero, "doctor"), re.M)
    compiler = output_of("c++", "-dumpfullversion")
    return ", ".join(filter(None, [f"{output_of(zero, '--version')} ({revision or 'no revision'})", f"oneDNN {onednn[1]}" if onednn else "",
                                   output_of(python, "-c", probe).rstrip(", ") or "no peers", f"c++ {compiler}" if compiler else "no c++",
                                   f"Linux {platform.release()}"]))
