#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a board gets when it returns: of three ranks (or four) one is lost with its memory, two go on, and then three
# again. The states that they keep are read and compared with the table of docs/checkpoints.md. Boards are
# emulated, so that gradients are drawn; their rate is 0 after the return, so that only exchanges change models.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
S=synchronization
common=(--set=train.emulate_compute=0.01 --set=data.limit_train=96000 --set=train.epochs=1000)
memory=(--set=checkpoint.memory_seconds=0.5 --set=train.steps=100000)
said() {
  grep '"type":"note"' "$RUN/metrics.jsonl" | grep -qE -- "$2" || wrong "$1: expected a note that matches \"$2\""
}

# newest RANKS: the newest set in memory that ranks can go on from. One may vanish meanwhile.
newest() {
  local set files
  for set in $(find "$EQT_MEMORY_FOLDER" -name "step-*" 2>/dev/null | sort -r); do
    files=("$set"/rank-*-of-"$1".eqt)
    [[ -e ${files[0]} && (-e $set/manifest.json || ${#files[@]} -eq $1) ]] || continue
    echo "$set"
    return
  done
}
step_of() { echo $((10#${1##*step-})); }

# killed NAME RANKS ARGUMENTS: a run that is killed when all ranks know a state in memory to be complete. SET is
# the newest one, and none is left on the disk. In the step after it local-sgd does not average.
killed() {
  local job pid
  RUN=$WORK/$1 SET="" OUT=$WORK/stdout ERR=$WORK/stderr
  set_mpi folder "$WORK/mpi"
  "$EQT_ROOT/scripts/run_local.sh" --ranks "$2" -- --config "$WORK/tiny.json" --out "$RUN" "${common[@]}" \
    "${memory[@]}" "${@:3}" >"$OUT" 2>"$ERR" </dev/null &
  job=$!
  for ((i = 0; i < 600; i++)); do
    SET=$(newest "$2")
    [[ ! -e $SET/manifest.json || $(($(step_of "$SET") % 4)) -eq 3 ]] || break
    kill -0 $job 2>/dev/null || break
    sleep 0.05
  done
  for pid in $(pgrep -f -- "--out $RUN "); do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) != "$(basename "$EQT_PROGRAM" | cut -c 1-15)" ]] ||
      kill -KILL "$pid" || true
  done
  wait $job && wrong "$1: a killed run ended well"
  rm -rf "$RUN"/checkpoints/step-*
  SET=$(newest "$2")
  [[ -n $SET ]] || wrong "$1: no state in memory of $2 ranks"
}

# returns NAME RANKS ARGUMENTS: compares by the function NAME of the program below.
returns() {
  local name=$1 n=$2 step lost
  shift 2
  killed "$name" "$n" "$@"
  [[ -n $SET ]] || return 0
  find "$EQT_MEMORY_FOLDER" -name "rank-$((n - 1))-of-$n.eqt" -delete
  SET=$(newest "$n") lost=$(step_of "$SET")
  killed "$name" $((n - 1)) "$@" --resume
  [[ -n $SET ]] || return 0
  said "$name" "continues from the state in memory of step $lost, which $n ranks saved, on $((n - 1))"
  said "$name" "rank $((n - 1))'s file of step $lost is nowhere, so what that rank alone had is lost"
  cp -r "$SET" "$WORK/before"
  step=$(step_of "$SET")
  expect_number "$step" ">" "$lost" "$name: a newer state of fewer ranks"
  train "$n" "$name" "${common[@]}" "$@" --resume --set=optimizer.learning_rate=0 --set=checkpoint.every_steps=1 \
    --set=checkpoint.keep=100 "--set=train.steps=$((step + 3))"
  expect_code 0 "$name: all ranks again"
  said "$name" "continues from the state in memory of step $step, which $((n - 1)) ranks saved, on $n"
  PYTHONPATH=$EQT_ROOT/tests/e2e python3 -B "$WORK/../compare.py" "$name" "$n" "$WORK/before" \
    "$RUN/checkpoints/$(printf 'step-%08d' $((step + 1)))" >"$WORK/compared" 2>&1 ||
    wrong "$name: $(tail -n 1 "$WORK/compared")"
}

# begin NAME RANKS ARGUMENTS: returns in the background, in a folder of its own, because it mostly waits.
begin() {
  (
    WORK=$WORK/$1 FAILURES=0
    mkdir -p "$WORK/memory"
    cp "$WORK/../tiny.json" "$WORK/"
    export EQT_MEMORY_FOLDER=$WORK/memory
    returns "$@" >"$WORK/said" 2>&1
    echo "$FAILURES" >"$WORK/failures"
  ) &
  BEGUN+=("$1")
}

# collect: waits for those that have begun.
collect() {
  local name
  wait
  for name in "${BEGUN[@]}"; do
    [[ $(cat "$WORK/$name/failures" 2>/dev/null) == 0 ]] || { cat "$WORK/$name/said"; wrong "$name"; }
  done
  BEGUN=()
}

cat >"$WORK/compare.py" <<'PY'
import sys
from read_states import read_set

name, ranks = sys.argv[1], int(sys.argv[2])
few, all_of_them = read_set(sys.argv[3], ranks - 1), read_set(sys.argv[4], ranks)
MODEL = "replica/parameters"


def part(ending, states=all_of_them):
    """A part by the end of its name, of all ranks."""
    names = [key for key in states[0] if key.endswith(ending)]
    assert len(names) == 1, f"{ending} is one of {sorted(states[0])}"
    return [state[names[0]] for state in states]


def distance(a, b):
    """The root of the mean square of a - b."""
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)) ** 0.5


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def same_model():
    """Replicas are equal, before and after."""
    models = part(MODEL)
    assert part(MODEL, few)[0] == part(MODEL, few)[1], "replicas differ"
    for rank, model in enumerate(models):
        assert model == part(MODEL, few)[0], f"rank {rank} does not have the others' model"


def mean_model():
    """All start with the mean model."""
    weights = [state["run/weight"][0] for state in few]
    before = part(MODEL, few)
    apart = distance(before[0], before[1])
    assert apart > 1e-3, f"models were {apart} apart, so a mean is no news"
    mean = [dot(weights, values) / sum(weights) for values in zip(*before)]
    for rank, model in enumerate(part(MODEL)):
        far = distance(model, mean)
        assert far < 1e-6, f"rank {rank} is {far} from the mean model, where others were {apart} apart"
    return mean


def shared_residual():
    """Ranks 0 and 2 have halves of what rank 0 had, and rank 1 has its own, beside one gradient."""
    before, after = part("memory/residual", few), part("memory/residual")
    for rank, (old, share) in enumerate([(0, 0.5), (1, 1), (0, 0.5)]):
        slope = dot(after[rank], before[old]) / dot(before[old], before[old])
        assert abs(slope - share) < 0.1, f"rank {rank} has {slope} of rank {old}'s residual, expected {share}"


def allreduce():
    same_model()
    shared_residual()


def ef21():
    same_model()
    estimates, mean = part("negated estimate"), part("mean estimate")[0]
    size = distance(mean, [0] * len(mean))
    of_all = [-sum(values) / 3 for values in zip(*estimates)]
    apart = distance(mean, of_all)
    assert apart < 1e-5 * size, f"g is {apart} from the mean of estimates, its size is {size}"


def local_sgd():
    mean_model()
    for average in part("last average"):
        assert average == part("last average", few)[0], "the last average is another"
    shared_residual()


def quorum():
    mean = mean_model()
    for steps in part("own steps"):
        assert steps[3] == 0 or steps[0] - steps[1] <= 4, f"a difference of {steps} is under way"


def d_psgd():
    mean_model()


def choco_sgd():
    mean = mean_model()
    for rank, copy in enumerate(part("public copy")):
        assert distance(copy, mean) < 1e-6, f"rank {rank}'s public copy is not the mean model"


def sgp():
    weights = [state["run/weight"][0] for state in few]
    assert abs(weights[0] - weights[1]) > 0.1, f"weights {weights} are equal, so they are no news"
    mean_model()
    for rank in part("push-sum/weights"):
        assert abs(sum(rank) - ranks) < 1e-12, f"weights {rank} of {ranks} ranks"


def deep_squeeze():
    mean_model()
    errors = part("mixer/error")
    size = distance(errors[0], [0] * len(errors[0]))
    for rank in (1, 2):
        apart = distance(errors[0], errors[rank])
        assert apart < 1e-3 * size, f"rank {rank} began with another error than rank 0: {apart} of {size}"


def gradient_tracking():
    mean_model()
    tracked, last = part("tracked"), part("previous gradient")
    sums = [[sum(values) for values in zip(*ranks)] for ranks in (tracked, last)]
    apart, size = distance(*sums), distance(sums[1], [0] * len(sums[1]))
    assert apart < 1e-4 * size, f"estimates are {apart} from the sum of gradients, its size is {size}"


def ad_psgd():
    mean_model()


def laq():
    same_model()
    known, sums = part("known"), part("/sum")
    of_all = [sum(values) for values in zip(*known)]
    for rank in range(3):
        assert distance(sums[rank], of_all) < 1e-9, f"rank {rank}'s sum is not that of what all know"


def none():
    before, after = part(MODEL, few), part(MODEL)
    assert distance(before[0], before[1]) > 1e-3, "models are equal, so a copy is no news"
    for rank, old in enumerate([0, 1, 0]):
        assert after[rank] == before[old], f"rank {rank} does not have rank {old}'s model"


globals()[name.replace("-", "_")]()
PY

BEGUN=()
topk=(--set=compressor.name=topk --set=compressor.density=0.01)
star=("--set=$S.topology.kind=star")
fast=(--set=optimizer.learning_rate=5)
begin allreduce 3 "${topk[@]}" --set=$S.error_feedback=ef14
begin ef21 3 "${topk[@]}" --set=$S.error_feedback=ef21
begin local-sgd 3 "${topk[@]}" "${fast[@]}" --set=$S.algorithm=local-sgd --set=$S.local_steps=4
begin d-psgd 3 "${fast[@]}" --set=$S.algorithm=d-psgd --set=$S.order=combine-then-adapt
collect
begin choco-sgd 3 "${topk[@]}" "${fast[@]}" --set=$S.algorithm=choco-sgd
begin sgp 4 "${star[@]}" --set=$S.topology.weights=uniform "${fast[@]}" --set=$S.algorithm=sgp
begin deep-squeeze 3 "${topk[@]}" "${fast[@]}" --set=$S.algorithm=deep-squeeze
begin gradient-tracking 4 "${star[@]}" --set=$S.algorithm=gradient-tracking "${fast[@]}" --set=optimizer.momentum=0
collect
begin laq 3 --set=$S.algorithm=laq --set=optimizer.momentum=0
begin none 3 "${fast[@]}" --set=$S.algorithm=none
# Algorithms without a common step keep a state only where they save one on the disk.
begin quorum 3 "${fast[@]}" --set=$S.algorithm=local-sgd --set=$S.local_steps=4 \
  --set=$S.delay=auto --set=$S.quorum=2 --set=checkpoint.every_steps=10
begin ad-psgd 4 "${star[@]}" "${fast[@]}" --set=$S.algorithm=ad-psgd --set=checkpoint.every_steps=10
collect
finish
