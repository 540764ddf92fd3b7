#!/usr/bin/env bash
# synchronization.collective "auto": what it chooses among, says and leaves behind.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# note: the text of the run's note before the first step, or nothing.
note() {
  python3 - "$RUN/metrics.jsonl" <<'PY'
import json, sys
print(*(r["text"] for r in map(json.loads, open(sys.argv[1])) if r["type"] == "note" and r["step"] == 0))
PY
}
chosen() { value "$RUN/config.json" synchronization.collective; }
predicted() { head -n 1 "$RUN/metrics.jsonl" >"$WORK/first"; value "$WORK/first" collective_predicted_ms; }

train 3 qsgd --set compressor.name=qsgd
expect_code 0 "qsgd on three ranks"
[[ $(chosen) != auto ]] || wrong "config.json does not name the collective"
expect_equal "$(chosen)" "$(summary collective)" "the collective of summary and config.json"
[[ $(note) == *"takes the collective $(chosen)"*ms* ]] || wrong "expected a note on the choice, found \"$(note)\""
expect_number "$(predicted)" ">" 0 "collective_predicted_ms"
hash=$(summary parameter_hash)

# The folder's config repeats the run, with nothing left to choose.
run "$EQT_ROOT/scripts/run_local.sh" --ranks 3 -- --config "$RUN/config.json" --out "$WORK/again"
RUN=$WORK/again
expect_code 0 "the run again"
expect_equal "$hash" "$(summary parameter_hash)" "parameter_hash of the repeated run"
expect_equal "" "$(note)" "the note of a run that names its collective"
expect_equal null "$(predicted)" "the prediction of a run that names its collective"

# Float32: only what sends float32 as it is.
train 2 none
expect_code 0 "none on two ranks"
[[ $(chosen) == dense || $(chosen) == mpi-allreduce ]] || wrong "float32 by $(chosen)"
[[ $(note) == *dense* && $(note) == *mpi-allreduce* ]] || wrong "the note does not compare both: $(note)"

# Two ranks gain nothing by quantising twice, and powersgd has a collective of its own.
train 2 pair --set compressor.name=qsgd
expect_equal allgather "$(summary collective)" "the collective of two ranks"
train 2 factors --set compressor.name=powersgd
expect_equal power-sgd "$(summary collective)" "the collective of powersgd"
train 1 alone
expect_code 0 "one rank"
expect_equal "" "$(note)" "the note of one rank"
finish
