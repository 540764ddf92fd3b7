#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# synchronization.collective "auto": its candidates, its note and the choice in config.json.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# note: the text of the run's note before the first step, or nothing.
note() {
  python3 - "$RUN/metrics.jsonl" <<'PY'
import json, sys
print(*(r["text"] for r in map(json.loads, open(sys.argv[1])) if r["type"] == "note" and r["step"] == 0))
PY
}
loads=()
chosen() { value "$RUN/config.json" synchronization.collective; }

train 3 qsgd --set compressor.name=qsgd
expect_code 0 "qsgd on three ranks"
[[ $(chosen) != auto ]] || wrong "config.json does not name the collective"
expect_equal "$(chosen)" "$(summary collective)" "the collective of summary and config.json"
[[ $(note) == *"takes the collective $(chosen)"* ]] || wrong "expected a note on the choice, found \"$(note)\""
hash=$(summary parameter_hash)

# The folder's config, which has the choice, repeats the run.
run "$EQT_ROOT/scripts/run_local.sh" --ranks 3 -- --config "$RUN/config.json" --out "$WORK/again"
RUN=$WORK/again
expect_code 0 "the run again"
expect_equal "$hash" "$(summary parameter_hash)" "parameter_hash of the repeated run"
expect_equal "" "$(note)" "the note of a run that names its collective"

# Float32 runs repeat exactly on three ranks on a busy machine. MPI's own mean has other bits, so
# the choice may not depend on measurements.
train 3 float32
expect_code 0 "float32 on three ranks"
expect_equal dense "$(chosen)" "the collective of float32 on one host"
[[ $(note) == *dense* && $(note) == *mpi-allreduce* ]] || wrong "the note does not compare both: $(note)"
said=$(note) hash=$(summary parameter_hash)
for load in 1 2; do sh -c 'while :; do :; done' & loads+=($!); done
train 3 float32-loaded
kill "${loads[@]}"
expect_code 0 "float32 on a busy machine"
expect_equal "$said" "$(note)" "the note of the same run on a busy machine"
expect_equal "$hash" "$(summary parameter_hash)" "parameter_hash of the same run on a busy machine"

# Three hosts, and two hosts of two ranks: the bytes between hosts decide.
netlab=$EQT_ROOT/scripts/netlab.sh
if "$netlab" --check >"$WORK/check" 2>&1; then
  for setting in "3 1 dense" "4 2 hierarchical"; do
    read -r ranks per_host expected <<<"$setting"
    hash=""
    for repeat in 1 2; do
      RUN=$WORK/hosts-$ranks-$repeat
      run "$netlab" --ranks "$ranks" --ranks-per-host "$per_host" --rate 1gbit -- \
        "$EQT_PROGRAM" --config "$WORK/tiny.json" --out "$RUN"
      expect_code 0 "$ranks ranks, $per_host a host"
      expect_equal "$expected" "$(summary collective)" "the collective of $ranks ranks, $per_host a host"
      expect_equal "${hash:=$(summary parameter_hash)}" "$(summary parameter_hash)" "parameter_hash of $ranks ranks, $per_host a host"
    done
  done
fi

# For two ranks quantising twice is not faster, and powersgd has its own collective.
train 2 pair --set compressor.name=qsgd
expect_equal allgather "$(summary collective)" "the collective of two ranks"
train 2 factors --set compressor.name=powersgd
expect_equal power-sgd "$(summary collective)" "the collective of powersgd"
train 1 alone
expect_code 0 "one rank"
expect_equal "" "$(note)" "the note of one rank"
finish
