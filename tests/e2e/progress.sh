#!/usr/bin/env bash
# What a person sees while a run goes on: a bar on a terminal, in its width; plain lines with the time
# in a file; nothing with --quiet.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
short=(--config "$WORK/tiny.json")

# One rank in a pseudo-terminal of 70 columns that is 45 wide after a while. Python says what it read.
cat >"$WORK/terminal.py" <<'PY'
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], sys.argv[1:])

def resize(columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

resize(70)
shown = b""
while True:
    try:
        some = os.read(terminal, 4096)
    except OSError:  # the other side is closed
        break
    if not some:
        break
    shown += some
    if b"resized" not in shown and shown.count(b"\r\x1b[K") >= 3:
        resize(45)
        shown += b"\r\x1b[K<resized>"
os.write(1, shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
run python3 "$WORK/terminal.py" "$EQT_PROGRAM" "${short[@]}" --out "$WORK/bar" --set output.progress=auto --set train.steps=12 --set data.limit_test=1200
expect_code 0 "a run in a terminal"
python3 - "$OUT" <<'PY' || wrong "a terminal is not shown what was promised"
import re, sys
text = open(sys.argv[1], "rb").read().decode()
clear = "\r\x1b[K"
before, after = text.split(clear + "<resized>")
bars = [re.split(r"[\r\n]", part)[0] for part in before.split(clear)[1:]]
bars = [bar for bar in bars if bar]
late = [re.split(r"[\r\n]", part)[0] for part in after.split(clear)[1:]]
late = [bar for bar in late if bar.startswith("[")][1:]  # one may have been under way
assert bars and all(re.match(r"\[[#-]{10}\] +\d+ %", bar) for bar in bars), bars
assert all(len(bar) < 70 for bar in bars), [len(bar) for bar in bars]
assert max(len(bar) for bar in bars) >= 45, bars
assert late and all(len(bar) < 45 for bar in late), late
assert any("evaluating" in bar for bar in late), late
assert "parameter hash" in text.split(clear)[-1], "the table comes last, on a clean line"
table = text[text.index("run                tiny"):].replace("\r", "").splitlines()
assert all(len(line) <= 80 for line in table), table
assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]", text), "other control characters"
assert set(re.findall(r"\x1b\[[0-9;]*[A-Za-z]", text)) == {"\x1b[K"}
PY

# In a file or a pipe: lines with day and time, no control character, even if a bar was wished for and
# a name has one.
for style in auto bar; do
  run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/log-$style" --set "output.progress=$style"
  expect_code 0 "a run into files, progress $style"
  ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]' "$OUT" "$ERR" || wrong "$style: control characters in a file"
  [[ $(grep -cE '^20[0-9]{2}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]  ' "$ERR") -eq $(wc -l <"$ERR") ]] ||
    wrong "$style: expected each line to begin with day and time"
  expect_text "epoch 1/[0-9]* done" "progress $style"
  grep -q "parameter hash" "$OUT" || wrong "$style: expected the table on standard output"
done

run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/off" --set output.progress=off
[[ ! -s $ERR ]] || wrong "progress off: expected nothing on stderr"
grep -q "parameter hash" "$OUT" || wrong "progress off: expected the table"
run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/quiet" --set output.progress=bar --quiet
expect_code 0 "a quiet run"
[[ ! -s $ERR && ! -s $OUT ]] || wrong "--quiet: expected nothing at all"
run "$EQT_PROGRAM" "${short[@]}" --out "$WORK/quiet" --set output.progress=bar --quiet
expect_failure 2 "holds another run's" "a quiet run that fails"
finish
