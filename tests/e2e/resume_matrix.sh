#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints are complete: for every algorithm, compressor and collective with a memory, a run that
# is interrupted within an epoch and resumed ends with the parameters, bytes and losses of an
# uninterrupted run. So do some that are killed and go on from states in memory.
#
#   resume_matrix.sh compressors|algorithms [quarter]
#
# With "quarter" every fourth cell runs, chosen by the commit, so that four commits probably cover
# most of the matrix. It prints which cells ran and which did not.
#
# CTest gives it the program without LibTorch, which starts faster: what algorithms, compressors and collectives
# remember is not a part of networks. The state of LibTorch's networks is in resume.sh and memory_states.sh, and
# what they draw in the cell dropout.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
CUT=5 END=10

CELL=-1 QUARTER="" COMMIT="" RAN=() SKIPPED=()
if [[ ${2:-} == quarter ]]; then
  COMMIT=$(git -C "$EQT_ROOT" rev-parse --short=8 HEAD 2>/dev/null) || COMMIT=00000000
  QUARTER=$((16#${COMMIT:0:8} % 4))
fi

# next_cell NAME: true if the next cell of the matrix is to run.
next_cell() {
  CELL=$((CELL + 1))
  if [[ -n $QUARTER && $((CELL % 4)) -ne $QUARTER ]]; then
    SKIPPED+=("$1")
    return 1
  fi
  RAN+=("$1")
}

# without_seconds FOLDER: its records and summary without times, memory, notes, starts and the bytes of a
# start, one key per line.
without_seconds() {
  python3 - "$1" <<'PY'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
gone = {"seconds", "epoch_seconds", "wall_seconds", "images_per_second", "peak_rss_mib",
        "other_sent_bytes", "estimated_sent_bytes", "starts"}
def show(record):
    print(json.dumps({k: v for k, v in record.items() if k not in gone}, sort_keys=True))
for line in (folder / "metrics.jsonl").read_text().splitlines():
    record = json.loads(line)
    if record["type"] in ("step", "epoch"):
        show(record)
show(json.loads((folder / "summary.json").read_text()))
PY
}

# cut_off FOLDER: the folder of a job that died just after step CUT, with records of later steps.
cut_off() {
  rm -rf "$1"/checkpoints/step-*"$END" "$1/summary.json" "$1/model.pt"
}

# both NAME RANKS ARGUMENTS: the run, and the same interrupted and resumed.
both() {
  local name=$1 ranks=$2
  shift 2
  local keys=(--set "train.steps=$END" --set "checkpoint.every_steps=$CUT" "$@")
  train "$ranks" "$name" "${keys[@]}"
  expect_code 0 "$name"
  [[ $CODE -eq 0 ]] || return 0
  cp -r "$RUN" "$WORK/$name-cut"
  cut_off "$WORK/$name-cut"
  train "$ranks" "$name-cut" "${keys[@]}" --resume
  expect_code 0 "$name, resumed"
}

# same NAME RANKS ARGUMENTS: both runs end with the same results.
same() {
  next_cell "$1" || return 0
  both "$@"
  compare "$1"
}

# compare NAME: both runs have the same results.
compare() {
  [[ $CODE -eq 0 ]] || return 0
  without_seconds "$WORK/$1" >"$WORK/whole.txt"
  without_seconds "$WORK/$1-cut" >"$WORK/cut.txt"
  cmp -s "$WORK/whole.txt" "$WORK/cut.txt" ||
    wrong "$1: the resumed run differs: $(diff "$WORK/whole.txt" "$WORK/cut.txt" | cut -c 1-300 | head -n 4)"
  expect_equal "$(value "$WORK/$1/summary.json" parameter_hash)" "$(summary parameter_hash)" \
    "$1: parameter_hash"
  rm -rf "$WORK/${1:?}" "$WORK/$1-cut"
}

# from_memory NAME RANKS ARGUMENTS: the same for a run that saves nothing on the disk, and is killed at a step of
# its last third. Steps of at least 10 ms, so that all ranks know of a state in memory before.
from_memory() {
  next_cell "$1" || return 0
  local name=$1 ranks=$2 end=120
  shift 2
  local keys=(--set "train.steps=$end" --set train.batch_size=4 --set data.limit_train=4800 "$@")
  train "$ranks" "$name" "${keys[@]}"
  expect_code 0 "$name"
  export EQT_FAULT=kill:rank=$((RANDOM % ranks)),step=$((end - 1 - RANDOM % (end / 3)))
  train "$ranks" "$name-cut" "${keys[@]}" --set checkpoint.memory_seconds=0.1
  expect_different 0 "$CODE" "$name with $EQT_FAULT"
  unset EQT_FAULT
  train "$ranks" "$name-cut" "${keys[@]}" --set checkpoint.memory_seconds=0.1 --resume
  expect_code 0 "$name, resumed from memory"
  grep -q "continues from the state in memory of step [1-9]" "$RUN/metrics.jsonl" ||
    wrong "$name: expected a run that continues from a state in memory"
  compare "$name"
}

RANDOM=20261129
export EQT_MEMORY_FOLDER=$WORK/memory
mkdir "$EQT_MEMORY_FOLDER"
case ${1:-} in
compressors)
  for compressor in $("$EQT_PROGRAM" list compressors | cut -d ' ' -f 1); do
    # These are below, with settings with which their memory matters.
    case $compressor in dgc | alq | amq | auto) continue ;; esac
    same "$compressor" 2 --set "compressor.name=$compressor"
  done
  same dgc 2 --set compressor.name=dgc --set compressor.warmup_epochs=2 --set compressor.clip_norm=1
  # Levels adapt before the cut, and after it.
  for compressor in alq amq; do
    same "$compressor" 2 --set "compressor.name=$compressor" --set compressor.adapt_every=3
  done
  same adaptive 2 --set compressor.name=elastiquant --set compressor.levels=adaptive \
    --set compressor.adapt_every=3
  # Grades are chosen before the cut, and after it.
  same auto 2 --set compressor.name=auto --set compressor.link=100 --set compressor.observe_every=2 \
    --set compressor.decide_every=2
  same auto-memory 2 --set compressor.name=auto --set compressor.link=100 --set compressor.observe_every=2 \
    --set compressor.decide_every=2 --set synchronization.error_feedback=ef14
  same rate 2 --set compressor.name=e-elastiquant --set compressor.rate=0.6 --set compressor.small_tensors=int8
  same momentum-correction 2 --set compressor.name=topk --set synchronization.momentum_correction=on
  same nearest 2 --set compressor.name=elastiquant --set compressor.rounding=nearest --set compressor.bits=3
  feedback=(--set compressor.name=qsgd-v --set compressor.bits=8 --set synchronization.error_feedback=ef14)
  for collective in allgather scatter-reduce ring recursive-doubling; do
    same "$collective" 3 "${feedback[@]}" --set "synchronization.collective=$collective"
  done
  same sparse 3 --set compressor.name=topk --set synchronization.collective=sparse
  from_memory allgather-memory 2 "${feedback[@]}" --set synchronization.collective=allgather
  from_memory sparse-memory 3 --set compressor.name=topk --set synchronization.collective=sparse
  same integer 3 --set compressor.name=int8 --set synchronization.collective=integer \
    --set synchronization.error_feedback=ef14
  same hierarchical 2 "${feedback[@]}" --set synchronization.collective=hierarchical
  same ef21 3 --set compressor.name=topk --set synchronization.error_feedback=ef21
  same ef21-momentum 3 --set compressor.name=elastiquant --set synchronization.collective=scatter-reduce \
    --set synchronization.error_feedback=ef21 --set synchronization.ef21_momentum=0.2
  ;;
algorithms)
  same none-at-all 2 --set synchronization.algorithm=none
  same local-sgd 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=3 \
    --set compressor.name=topk
  same delayed 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=3 \
    --set synchronization.delay=3 --set synchronization.outer.momentum=0.5 --set compressor.name=topk
  same fragments 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=5 \
    --set synchronization.delay=5 --set synchronization.fragments=3 --set compressor.name=elastiquant \
    --set synchronization.outer.momentum=0.5 --set synchronization.outer.by_rate=true --set schedule.kind=cosine
  same mixing 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=6 \
    --set synchronization.delay=2 --set synchronization.fragments=2 --set compressor.name=topk \
    --set synchronization.outer.mixing=0.5
  same qsr 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=qsr \
    --set schedule.kind=cosine --set synchronization.delay=auto
  same post-local 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=2 \
    --set synchronization.post_local_epochs=1 --set optimizer.momentum_kind=quasi-global
  topk=(--set compressor.name=topk --set compressor.density=0.1)
  same d-psgd 3 --set synchronization.algorithm=d-psgd --set synchronization.final_rounds=2
  same sgp 3 --set synchronization.algorithm=sgp --set synchronization.topology.kind=star
  same choco-sgd 3 --set synchronization.algorithm=choco-sgd "${topk[@]}"
  same ada-gossip 3 --set synchronization.algorithm=choco-sgd "${topk[@]}" \
    --set synchronization.adaptive_step=true --set synchronization.resync_every=4
  same events 3 --set synchronization.algorithm=choco-sgd "${topk[@]}" \
    --set synchronization.event_threshold=2 --set synchronization.event_silence=4
  same late-gossip 3 --set synchronization.algorithm=choco-sgd "${topk[@]}" \
    --set synchronization.local_steps=3 --set synchronization.delay=3
  same quant-sgp 3 --set synchronization.algorithm=quant-sgp "${topk[@]}" \
    --set synchronization.topology.kind=star --set synchronization.order=combine-then-adapt
  same deep-squeeze 3 --set synchronization.algorithm=deep-squeeze "${topk[@]}"
  same sparse-push 3 --set synchronization.algorithm=sparse-push "${topk[@]}" \
    --set synchronization.topology.kind=star
  same d2 3 --set synchronization.algorithm=d2 --set optimizer.momentum=0
  same gradient-tracking 3 --set synchronization.algorithm=gradient-tracking --set optimizer.momentum=0
  same laq 3 --set synchronization.algorithm=laq --set optimizer.momentum=0
  from_memory local-sgd-memory 2 --set synchronization.algorithm=local-sgd --set synchronization.local_steps=3 \
    --set synchronization.delay=2 --set compressor.name=topk
  from_memory choco-sgd-memory 3 --set synchronization.algorithm=choco-sgd "${topk[@]}"
  from_memory sgp-memory 3 --set synchronization.algorithm=sgp --set synchronization.topology.kind=star
  from_memory deep-squeeze-memory 3 --set synchronization.algorithm=deep-squeeze "${topk[@]}"
  same quasi-global 3 --set synchronization.algorithm=d-psgd --set optimizer.momentum_kind=quasi-global
  same gossip-levels 3 --set synchronization.algorithm=d-psgd --set compressor.name=alq \
    --set compressor.adapt_every=3
  # Its exchanges depend on timing: only checks that it continues and learns.
  if next_cell ad-psgd; then
    both ad-psgd 2 --set synchronization.algorithm=ad-psgd
    # An epoch has two ranks' steps together; each may take a few more before it is told of the end.
    expect_number "$(summary steps)" ">=" "$END" "ad-psgd: steps of the mean rank"
    expect_number "$(summary steps)" "<" $((END + CUT)) "ad-psgd: steps of the mean rank"
    expect_number "$(summary train_loss)" "<" 2.4 "ad-psgd: train_loss"
  fi
  # A network that draws random numbers.
  usual same dropout 2 --set model.name=vgg11 --set data.augment=true --set train.batch_size=4 \
    --set synchronization.timeout_seconds=300
  same emulated 2 --set train.emulate_compute=0.001 --set compressor.name=topk
  ;;
*) wrong "expected compressors or algorithms, found \"${1:-}\"" ;;
esac
if [[ -n $QUARTER ]]; then
  echo "[eqt-note] resume matrix, $1, quarter $((QUARTER + 1)) of 4 by commit $COMMIT: ran ${RAN[*]}; skipped ${SKIPPED[*]}"
fi
finish
