#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verbs that answer without training.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

program --version
expect_code 0 "--version"
version=$(sed -n 's/^project(equant-train VERSION \([0-9.]*\).*/\1/p' "$EQT_ROOT/CMakeLists.txt")
grep -qF "$version" "$OUT" || wrong "--version does not say $version"
grep -qi "torch" "$OUT" || wrong "--version does not name LibTorch"
program --help
expect_code 0 "--help"
grep -q -- "--config" "$OUT" || wrong "--help does not name --config"

program list
expect_code 0 "list"
for name in resnet20 vgg11 alexnet fashion-mnist e-elastiquant scatter-reduce; do
  grep -q -- "$name" "$OUT" || wrong "list does not name $name"
done
program list compressors --json
expect_code 0 "list compressors --json"
python3 - "$OUT" <<'PY' || wrong "list compressors --json: not JSON, or a compressor is missing"
import json, sys
text = open(sys.argv[1]).read()
json.loads(text)
for name in "none fp16 qsgd qsgd-v elastiquant e-elastiquant terngrad topk dgc threshold randomk".split():
    assert f'"{name}"' in text, name
PY
program list compresors
expect_failure 2 'compressors' "a misspelt kind of list"

program schema
expect_code 0 "schema"
python3 - "$OUT" <<'PY' || wrong "schema: not a JSON Schema of draft 2020-12 that closes its objects"
import json, sys
schema = json.load(open(sys.argv[1]))
assert "2020-12" in schema["$schema"]
assert schema["additionalProperties"] is False
assert "learning_rate" in schema["properties"]["optimizer"]["properties"]
PY

program manual
expect_code 0 "manual"
for word in '^\.SH NAME' '^\.SS bench collectives' 'compressor\.name' '\\-\\-simulate'; do
  grep -q -- "$word" "$OUT" || wrong "the manual page has no $word"
done
if command -v man >/dev/null; then
  cp "$OUT" "$WORK/equant-train.1"
  run env MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l "$WORK/equant-train.1"
  expect_code 0 "man reads the manual page"
  [[ ! -s $ERR ]] || wrong "man warns of the manual page"
fi
program completion
expect_code 0 "completion"
cp "$OUT" "$WORK/completion.bash"
# offered WORD...: bash's completions for the last word.
offered() {
  bash -c 'source "$1"; shift; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _equant_train
    printf "%s\n" "${COMPREPLY[@]}"' - "$WORK/completion.bash" "$@"
}
expect_equal doctor "$(offered equant-train doc)" "completing a verb"
expect_equal --values "$(offered equant-train bench codecs --val)" "completing an option"
expect_equal compressor.density= "$(offered equant-train --set compressor.dens)" "completing a key"
expect_equal qsgd-v "$(offered equant-train --set compressor.name = qsgd-)" "completing a name"
expect_equal models "$(offered equant-train list mo)" "completing a kind of list"

program check --config "$WORK/tiny.json" --set optimizer.learning_rate=0.25
expect_code 0 "check"
cp "$OUT" "$WORK/resolved.json"
expect_equal 0.25 "$(value "$WORK/resolved.json" optimizer.learning_rate)" "check shows --set"
expect_equal '"tiny"' "\"$(value "$WORK/resolved.json" name)\"" "check shows the file"
program check --config "$WORK/resolved.json"
expect_code 0 "check of a resolved config"
cmp -s "$OUT" "$WORK/resolved.json" || wrong "the resolved config of a resolved config differs"
# The variance bound of a compressor: sqrt(512) / 7 - 1 for QSGD's default buckets, 4 bits.
program check --config "$WORK/tiny.json" --set compressor.name=qsgd
expect_code 0 "check of a compressor"
expect_equal 512 "$(value "$OUT" compressor.bucket_size)" "the bucket of QSGD's paper"
grep -q '^compressor: qsgd, unbiased; error feedback: none; variance .*: at most 2\.23$' "$ERR" ||
  wrong "check does not tell QSGD's variance bound: $(cat "$ERR")"
grep -q '^warning: compressor qsgd: .*at most 1 without error feedback, found 2\.23: ' "$ERR" ||
  wrong "check does not warn of a variance above 1"
program check --config "$WORK/tiny.json" --set compressor.name=elastiquant
grep -q '^compressor: elastiquant, .*: at most 0\.234$' "$ERR" || wrong "check: ElastiQuant's bound"
program check --config "$WORK/tiny.json" --set compressor.name=int8
grep -q '^compressor: int8, biased; error feedback: ef14; ' "$ERR" || wrong "check: int8 has no memory"
program check --config "$WORK/tiny.json" --set compressor.name=signsgd --set optimizer.learning_rate=0.1
grep -q '^warning: compressor signsgd: .*learning_rate' "$ERR" || wrong "check: a rate of no sign"
program check --config "$WORK/tiny.json" --set compressor.name=qsgd --set synchronization.error_feedback=ef14
expect_failure 2 'error_feedback.*ef14.*qsgd.* 2\.23 ' "error feedback of a compressor that loses more than it is given"

program check --config "$WORK/tiny.json" --set no.such.key=1
expect_failure 2 'no\.such\.key' "check with an unknown key"
[[ ! -d $WORK/runs ]] || wrong "check made a run folder"
program check --config "$WORK/tiny.json" --set data.name=cifar10 --set "data.path=$WORK/nowhere" \
  --set "model.weights=$WORK/absent.pt" --ranks 65536
expect_code 0 "check of what lies on another machine"
for what in "warning: .*$WORK/nowhere" "warning: .*absent\.pt" 'warning: .*MiB of free memory for 65536 ranks'; do
  expect_text "$what" "check looks at paths and memory"
done
program check --config "$WORK/tiny.json"
! grep -q warning: "$ERR" || wrong "check warns of a config that lacks nothing"
for file in "$EQT_ROOT"/configs/*.json "$EQT_ROOT"/configs/*/*.json; do
  [[ $file != */sweeps/*.json ]] || continue  # of configs; see sweep.sh
  [[ -e $file ]] || continue
  program check --config "$file"
  expect_code 0 "check of ${file#"$EQT_ROOT"/}"
done

# Every verb refuses unknown words, with the word and a similar one.
cat >"$WORK/walk.py" <<'PY'
import re, subprocess, sys
program, wrong = sys.argv[1], 0

def told(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr

def refused(words, *named):
    global wrong
    code, out, err = told(*words)
    if code != 2 or out or err.count("\n") != 1 or not all(name in err for name in named):
        wrong += 1
        print(f"equant-train {' '.join(words)}: expected exit code 2 and one sentence with {named}, "
              f"found {code}, {out[:80]!r} and {err!r}")

def walk(verb, has_verbs):
    refused([*verb, "--no-such-option"], '"--no-such-option"', "its options are", "--help")
    if not has_verbs:
        return []
    text = told(*verb, "--help")[1]
    names = re.findall(r"^  ([a-z][a-z-]*) ", text.partition("Subcommands:")[2], re.M)
    refused([*verb, "nosuchverb"], "nosuchverb", *names)
    refused([*verb, names[-1] + names[-1][-1]], names[-1])
    for name in names:
        walk([*verb, name], name in ("bench", "analyze"))
    return names

for name in walk([], True):
    rest = {"report": ["."], "bench": ["codecs"], "analyze": ["levels"]}.get(name, [])
    refused(["--quiet", name, *rest], "--quiet", "before")
refused(["--epochs", "3"], "--set train.epochs=3")
refused(["check", "--epochs=3"], "--set train.epochs=3")
refused(["--batch-size", "8"], "--set train.batch_size=8")
refused(["--lr", "0.1"], "--set optimizer.learning_rate=0.1")
refused(["--compressor", "qsgd"], "--set compressor.name=qsgd")
refused(["configs/quickstart.json"], "--config configs/quickstart.json")
refused(["check", "configs/quickstart.json"], "--config configs/quickstart.json")
refused(["--config", "a.json", "train.epochs=3"], "--set train.epochs=3")
refused(["--config", "a.json", "--quite"], "--quiet")
refused(["report", ".", "--tabel", "x"], "--table")
refused(["--config", "a.json", "--ranks", "4"], "mpirun -np 4", "scripts/run_local.sh --ranks 4")
refused(["bench", "codecs", "--bits", "3"], "--set compressor.bits=3")
refused(["analyze", "levels", "--bist", "3"], "--bits")
refused(["analyze", "levels", "codecs"], '"codecs"')
refused(["list", "-x"], '"-x"')
refused(["--config", "a.json", "check"], "--config", "before")
refused(["schema", "models"], '"models"')
refused(["analyze", "volume", "--plot", "a.svg"], "--plot")
refused(["analyze", "memory", "--paper", "--copies", "3"], "--paper", "--copies")
refused(["analyze", "convergence", "nonconvex", "--momentum", "0.5"], "--momentum", "convex-momentum")
sys.exit(wrong > 0)
PY
RUN_LIMIT=200 run python3 "$WORK/walk.py" "$EQT_PROGRAM"
expect_code 0 "options and words that verbs do not know"

program
expect_code 2 "no argument at all"
program --configure x
expect_code 2 "an unknown flag"
finish
