#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output during a run: a bar on a terminal, in its width; plain lines with the time in a file;
# nothing with --quiet.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
short=(--config "$WORK/tiny.json" --set train.batch_size=4)

# A command in a pseudo-terminal whose width changes each time some bars were drawn. Prints, as JSON,
# the output for each width, and the final screen of a terminal that breaks lines again for a new
# width.
cat >"$WORK/terminal.py" <<'PY'
import fcntl, json, os, pty, re, select, struct, sys, termios
widths = [int(width) for width in sys.argv[1].split(",")]
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, widths[0], 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])

def waits(seconds):
    return not select.select([terminal], [], [], seconds)[0]

shown = [b""]
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:  # the other side is closed
        break
    if not some:
        break
    shown[-1] += some
    if len(shown) < len(widths) and shown[-1].count(b"\r\x1b[J[") >= 3 and waits(0.02):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, widths[len(shown)], 0, 0))
        shown.append(b"")
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

lines, line, at = [""], 0, 0  # characters of whole lines; the cursor's line and place in it
for width, text in zip(widths, shown):
    for piece in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|.", text.decode(), re.S):
        if piece == "\n":
            line, at = line + 1, at % width
            if line == len(lines):
                lines.append("")
        elif piece == "\r":
            at -= at % width  # of the line on the screen
        elif piece == "\x1b[J":
            lines[line] = lines[line][:at]
            del lines[line + 1:]
        else:
            assert len(piece) == 1, piece
            lines[line] = lines[line][:at].ljust(at) + piece + lines[line][at + 1:]
            at += 1
print(json.dumps({"shown": [[width, text.decode()] for width, text in zip(widths, shown)], "screen": lines}))
sys.exit(code)
PY

# bars WIDTHS LABEL COMMAND...: checks the output on a terminal.
bars() {
  local widths=$1 label=$2
  shift 2
  run python3 "$WORK/terminal.py" "$widths" "$@"
  expect_code 0 "$label: a run in a terminal"
  python3 - "$OUT" <<'PY' || wrong "$label: a terminal is not shown what was promised"
import json, re, sys
told = json.load(open(sys.argv[1]))
clear = "\r\x1b[J"
text = "".join(part for _, part in told["shown"])
for width, part in told["shown"]:
    bars = [bar[:-1] for bar in part.split(clear) if re.match(r"(EMULATED  )?\[", bar) and bar.endswith("\r")]
    assert bars and all(re.match(r"(EMULATED  )?\[[#-]{%d}\] +\d+ %%" % (8 if width < (101 if "EMULATED" in bar else 91) else 20), bar) for bar in bars), (width, bars)
    for bar in bars:
        assert len(bar) < width, (width, bar)
        for field in re.split("  +", bar[bar.index("]") + 1:])[1:]:  # whole parts
            assert re.fullmatch(r"\d+ %|evaluating|epoch \d+/\d+|loss [\d.]+|[\d.e+]+ samples/s|ETA [\d:-]+|sent [\d.]+ [kMG]?B|ratio [\d.]+|step \d+/\d+", field), bar
assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]", text), "other control characters"
assert set(re.findall(r"\x1b\[[0-9;]*[A-Za-z]", text)) == {"\x1b[J"}
end = next(i for i, line in enumerate(told["screen"]) if line.startswith("The run is in "))
commands, told["screen"] = [line for line in told["screen"][end + 1:] if line], told["screen"][:end]
assert 2 <= len(commands) <= 3 and all(re.match(r"  \S+equant-train \S.*  # ", line) for line in commands), commands
rests = [line for line in told["screen"] if "[#" in line or "[-" in line]
assert not rests, rests
screen = "\n".join(told["screen"])
table = screen[screen.index("run                tiny"):].splitlines()
assert all(len(line) <= min(80, told["shown"][0][0]) for line in table), table  # the width at the start
assert "parameter hash" in screen
for line in told["screen"]:  # messages break between words, later lines are indented
    assert not line or re.match(r"\d\d:\d\d:\d\d  |          |[a-z]|EMULATED  |$", line), line
PY
}
# Steps that only take time. Their records come in groups, and each group draws a bar.
paced=(--set output.progress=auto --set train.emulate_compute=0.006)
bars 70,45,130,50,200 "one rank" "$EQT_PROGRAM" "${short[@]}" --out "$WORK/bar" "${paced[@]}" --set train.steps=480
# mpirun gives ranks pipes: the terminal is found through the script or through mpirun itself.
bars 120,60 "run_local.sh" "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- "${short[@]}" --out "$WORK/bar2" \
  "${paced[@]}" --set train.steps=240
bars 50,90 "mpirun" "$(command -v mpirun)" --oversubscribe -np 2 "$EQT_PROGRAM" "${short[@]}" --out "$WORK/bar3" \
  "${paced[@]}" --set train.steps=240
bars 80 "a network" "$EQT_PROGRAM" "${short[@]}" --out "$WORK/bar5" --set output.progress=auto --set train.steps=8
grep -q evaluating "$OUT" || wrong "a network: the bar does not tell of the evaluation"
# If mpirun's standard error is no terminal, there is no bar.
run python3 "$WORK/terminal.py" 80 /bin/bash -c '"$@" 2>log' bash "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- \
  "${short[@]}" --out "$WORK/bar4" --set output.progress=auto
expect_code 0 "a run with standard error in a file"
! grep -q '\[[#-]' "$OUT" || wrong "a bar is drawn though standard error is a file"
grep -q "epoch 1/[0-9]* done" log || wrong "the file has no lines of progress"
# In a file or a pipe: lines with date and time, no control character, even if a bar was requested
# and a name contains one.
for style in auto bar; do
  run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/log-$style" --set "output.progress=$style"
  expect_code 0 "a run into files, progress $style"
  ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]' "$OUT" "$ERR" || wrong "$style: control characters in a file"
  [[ $(grep -cE '^20[0-9]{2}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]  ' "$ERR") -eq $(wc -l <"$ERR") ]] ||
    wrong "$style: expected each line to begin with day and time"
  expect_text "epoch 1/[0-9]* done" "progress $style"
  grep -q "parameter hash" "$OUT" || wrong "$style: expected the table on standard output"
done

# Without mpirun a note says how to start ranks; with mpirun -np 1 it does not.
grep -q 'one rank, so nothing is sent; .*mpirun -np 2' "$WORK/log-auto/metrics.jsonl" || wrong "one rank without mpirun is not told"
expect_text 'one rank, so nothing is sent; .*run_local.sh --ranks 2' "a run without mpirun"
run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/alone" --set synchronization.algorithm=none
! grep -q 'nothing is sent' "$ERR" || wrong "a run that shall send nothing is told that it does"

run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/off" --set output.progress=off
[[ ! -s $ERR ]] || wrong "progress off: expected nothing on stderr"
grep -q "parameter hash" "$OUT" || wrong "progress off: expected the table"
run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/quiet" --set output.progress=bar --quiet
expect_code 0 "a quiet run"
[[ ! -s $ERR && ! -s $OUT ]] || wrong "--quiet: expected nothing at all"
run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/quiet" --set output.progress=bar --quiet
expect_failure 2 "holds another run's" "a quiet run that fails"
finish
