# SPDX-License-Identifier: Apache-2.0
"""Instructions and modelled cycles of one pass of pass_once, from qemu's log of executed instructions.

neon_trace.py PROGRAM VALUES FUNCTIONS MCA CPU...   the log on standard input

Prints instructions per value, then cycles per value for each CPU, tab-separated; with FUNCTIONS above 0 also the
functions with most instructions. Cycles are those of llvm-mca for executed instructions in order, without cache misses
and mispredicted branches: for each function that executes at least a fiftieth of them, those of WINDOW instructions in
the middle of the pass, scaled. Other functions are taken to be as fast as these together.
"""

import collections
import re
import subprocess
import sys

MARK = "pass_once_mark"
WINDOW = 6000
# Of exec logs: Trace 0: HOST [CS_BASE/PC/FLAGS/CFLAGS] SYMBOL
LINE = re.compile(r"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/[^]]*\] ?(.*)$")


def last_pass(log):
    """(address, function) of the instructions between the third and the fourth call of the mark."""
    marks, steps, inside = 0, [], False
    for line in log:
        match = LINE.match(line)
        if not match:
            continue
        function = match[2].strip()
        if function == MARK and not inside:
            marks += 1
            if marks == 4:
                collections.deque(log, maxlen=0)  # qemu would fail if its log were closed
                return steps
        inside = function == MARK
        if marks == 3 and not inside:
            steps.append((int(match[1], 16), function))
    sys.exit(f"neon_trace.py: expected four calls of {MARK} in qemu's log, found {marks}; does the program run?")


def disassembly(program):
    """Instructions by address, in a form that llvm-mca assembles: branches lead nowhere."""
    text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", program], check=True,
                          capture_output=True, text=True).stdout
    code = {}
    for line in text.splitlines():
        match = re.match(r"^\s*([0-9a-f]+):\t([a-z][\w.]*)\s*(.*)$", line)
        if not match:
            continue
        name, operands = match[2], re.sub(r"\s*(//|<).*$", "", match[3])
        if name in ("b", "bl") or name.startswith("b.") or re.match(r"(cb|tb)n?z$", name) or name in ("adr", "adrp"):
            operands = re.sub(r"(0x)?[0-9a-f]+$", "#0" if name == "adrp" else "#4", operands)
        elif name in ("ldr", "ldrsw") and re.search(r", [0-9a-f]+$", operands):
            operands = re.sub(r"[0-9a-f]+$", "#8", operands)
        code[int(match[1], 16)] = f"{name} {operands}"
    return code


def cycles(mca, cpu, instructions):
    command = [mca, "-mtriple=aarch64", f"-mcpu={cpu}", "-iterations=1", "-instruction-info=0",
               "-resource-pressure=0"]
    done = subprocess.run(command, input="\n".join(instructions) + "\n", capture_output=True, text=True)
    match = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if not match:
        sys.exit(f"neon_trace.py: expected total cycles from {mca}, found: {(done.stderr or done.stdout)[:400]}")
    return int(match[1])


def all_cycles(mca, cpu, steps, code):
    functions = collections.defaultdict(list)
    for address, name in steps:
        if address in code:
            functions[name].append(code[address])
    executed, total = 0, 0.0
    for stream in functions.values():
        if len(stream) * 50 < len(steps):
            continue
        first = max(0, (len(stream) - WINDOW) // 2)
        window = stream[first:first + WINDOW]
        total += cycles(mca, cpu, window) / len(window) * len(stream)
        executed += len(stream)
    return total / executed * len(steps)


def main():
    program, values, functions, mca = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    steps = last_pass(sys.stdin)
    code = disassembly(program)
    figures = [len(steps)] + [all_cycles(mca, cpu, steps, code) for cpu in sys.argv[5:]]
    print("\t".join(f"{figure / values:.2f}" for figure in figures))
    for name, count in collections.Counter(name for _, name in steps).most_common(functions):
        print(f"  {count / values:8.2f}  {name}")


if __name__ == "__main__":
    main()
