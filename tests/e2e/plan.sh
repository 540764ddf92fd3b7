#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verb plan: needs no MPI and no data, compares schemes, numbers of ranks and batches, and
# refuses what it cannot plan.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

CONFIGS=$EQT_ROOT/configs
write() { printf '%s\n' "$2" > "$WORK/$1"; }
write resnet18.json '{"model": {"name": "resnet18"}, "data": {"name": "cifar10"},
  "train": {"emulate_compute": 0.75, "steps": 10}, "compressor": {"name": "e-elastiquant"}}'
write lan.json '{"boards": [{"name": "board", "count": 4, "step_seconds": 0.75, "link": "lan"}],
  "links": {"lan": {"kind": "duplex", "megabits": 100, "latency_ms": 0.1}}}'

program plan --config "$WORK/resnet18.json" --cluster "$WORK/lan.json"
expect_code 0 "plan"
grep -q 's a step' "$OUT" || wrong "plan: no sentence with the time of a step"
grep -q '^\* guessed: ' "$OUT" || wrong "plan: it does not say what was guessed"

program plan --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" --json --ranks 1,2,4,8
expect_code 0 "plan --json"
python3 - "$OUT" <<'PY' || wrong "plan --json: figures that cannot be right"
import json, sys
plan = json.load(open(sys.argv[1]))
rows = {row["scheme"]: row for row in plan["schemes"]}
dense, ours = rows["none"], rows["e-elastiquant"]
# Emulated boards have ResNet-18 as it was published, 11,689,512 parameters. Two rounds among four
# send 6/4 of them in float32.
assert abs(dense["sent_bytes_per_rank"] / (1.5 * 4 * 11689512) - 1) < 0.001, dense
# At 100 Mb/s, of which 1448 / 1514 are data, these take 5.6 s, and the step hides less than 0.5 s.
wire = dense["sent_bytes_per_rank"] / (100e6 / 8 * 1448 / 1514)
assert wire + 0.2 < dense["step_seconds"] < wire + 0.85, dense
assert 0.75 <= ours["step_seconds"] < 1, ours
# With W = f + b the forward pass f, a third of the 0.75 s, is all that could be hidden; float32 waits
# for much more.
assert abs(dense["step_seconds"] / (dense["step_seconds"] - 0.25) - 1 - dense["forward_overlap_gain"]) < 1e-9
assert ours["break_even_megabits"] > 100 or ours["always_faster"]
alone = ours["by_ranks"][0]
assert alone["ranks"] == 1 and alone["sent_bytes_per_rank"] == 0, alone
for row in plan["schemes"]:
    assert [r["ranks"] for r in row["by_ranks"]] == [1, 2, 4, 8]
    assert row["step_seconds"] >= 0.75, row
    assert abs(row["computing_seconds"] + row["waiting_seconds"] - row["step_seconds"]) < 1e-3, row
# One board alone takes the same batch in the seconds of the file and those of the update.
one = plan["one_board"]
assert one["scheme"] == "one board alone" and not one["fastest"] and one["sent_bytes_per_rank"] == 0, one
assert 0.75 <= one["step_seconds"] < 0.85 and one["step_seconds"] == alone["step_seconds"], (one, alone)
for row in plan["schemes"]:
    assert abs(row["times_one_board"] / (4 * one["step_seconds"] / row["step_seconds"]) - 1) < 1e-9, row
assert dense["times_one_board"] < 0.6 < 3 < ours["times_one_board"], (dense, ours)
best = rows[plan["best"]]["times_one_board"]
assert f"{best:.2f} times one board alone" in plan["summary"], plan["summary"]
# Float32 pays where four of its steps take less than four of one board, but for 1 %; the forward pass
# and a part of the backward pass hide some of the sending.
sent = dense["sent_bytes_per_rank"] * 8e-6 * 1514 / 1448
assert sent / 3.5 < dense["pays_from_megabits"] < sent / 2.2, dense
assert 0 < ours["pays_from_megabits"] < dense["pays_from_megabits"] / 10, ours
least = min(plan["schemes"], key=lambda row: row["pays_from_megabits"])
assert one["more_pay_from_megabits"] == least["pays_from_megabits"] < 10, one
assert one["more_pay_with"] == least["scheme"], one
PY

# At 10 Mb/s float32 on four boards is slower than one of them: the plan says so first.
sed 's/"megabits": 100/"megabits": 10/' "$WORK/lan.json" > "$WORK/slow.json"
program plan --config "$WORK/resnet18.json" --cluster "$WORK/slow.json" --vary compressor.name=none
expect_code 0 "plan where one board wins"
head -1 "$OUT" | grep -q '^one board alone is the fastest: 0\.7.* s a step, .*; more boards pay from [12].. Mb/s of the slowest link on (none); here, at 10 Mb/s, 0\.05 times one board alone (none)' ||
  wrong "plan where one board wins: its first line is: $(head -1 "$OUT")"
grep -A3 'by scheme:' "$OUT" | grep -q '^one board alone' || wrong "plan: one board is not its first row"

# Batches by speed on a rack of four kinds of boards.
program plan --config "$CONFIGS/cifar10_resnet20/e-elastiquant.json" \
  --cluster "$CONFIGS/clusters/seeds-rack.json" --json
expect_code 0 "plan for uneven boards"
python3 - "$OUT" <<'PY' || wrong "plan for uneven boards: batches by speed are not the best"
import json, sys
plan = json.load(open(sys.argv[1]))
rows = {row["scheme"]: row for row in plan["schemes"]}
equal, by_speed = rows["e-elastiquant"], rows["e-elastiquant, batches by speed"]
assert plan["ranks"] == 18 and plan["best"].endswith("batches by speed"), plan["best"]
assert "by speed" not in plan["compression"], plan["compression"]  # it is not compression that pays there
assert equal["step_seconds"] >= 3 and by_speed["step_seconds"] < 1
assert by_speed["images_per_second"] > 3 * equal["images_per_second"]
# The fastest kind, 0.3 s a step; 7, 4, 3 and 4 boards as fast as 10 : 4 : 2 : 1 are 9.6 of them.
one = plan["one_board"]
assert one["scheme"] == "one jetson-xavier-nx alone" and 0.3 <= one["step_seconds"] < 0.31, one
assert abs(by_speed["times_one_board"] / (by_speed["images_per_second"] / one["images_per_second"]) - 1) < 1e-9
assert 3 * equal["times_one_board"] < by_speed["times_one_board"] < 9.6, by_speed
PY

# The same as a page; the rack's boards have prices and watts.
program plan --config "$CONFIGS/cifar10_resnet20/e-elastiquant.json" --page "$WORK/plan.html" \
  --cluster "$CONFIGS/clusters/raspberry-pi-8.json" --vary compressor.name=none,e-elastiquant --json \
  --steps-at-1 1000 --noise-scale 500 --vary synchronization.error_feedback=none,auto
expect_code 0 "plan --page"
grep -q '</html>' "$WORK/plan.html" || wrong "plan --page: no page"
! command -v gnuplot >/dev/null || grep -q '<svg ' "$WORK/plan.html" || wrong "plan --page: no plots"
python3 - "$OUT" "$CONFIGS/clusters/raspberry-pi-8.json" <<'PY' || wrong "plan: fronts or targets that cannot be right"
import json, sys
plan, cluster = (json.load(open(path)) for path in sys.argv[1:])
priced = all("price" in board or "watts" in board for board in cluster["boards"])
rows = [row for scheme in plan["schemes"] for row in scheme["by_ranks"]]
assert priced == any(row.get("pareto") for row in rows), rows[0]
dense, _, ours, remembering = plan["schemes"]
assert "target_steps" not in remembering, remembering  # an error that comes later is no noise
assert dense["compression_noise"] == 0 < ours["compression_noise"]
batch = round(dense["images_per_second"] * dense["step_seconds"])
assert abs(dense["target_steps"] / (1000 * (1 + 500 / batch)) - 1) < 1e-6, (dense, batch)
assert dense["target_steps"] < ours["target_steps"]
PY

# A torus has two sides of at least 2: of 1, 2, 4, 8 and 9 ranks two are none, unless they are asked for.
torus=(plan --config "$CONFIGS/decentralised/vgg11.json" --cluster "$CONFIGS/clusters/raspberry-pi-8.json"
  --set compressor.name=none)
program "${torus[@]}" --vary compressor.name=none
expect_code 0 "plan with a torus"
grep -q '^\* left out: 2 ranks: topology torus: expected a number of ranks .*found 2' "$OUT" ||
  wrong "plan with a torus: it does not say what is left out"
program "${torus[@]}" --vary synchronization.topology.kind=torus,ring --json
expect_code 0 "plan with a torus and a ring"
python3 - "$OUT" <<'PY' || wrong "plan with a torus and a ring: other numbers of ranks"
import json, sys
plan = json.load(open(sys.argv[1]))
ranks = {scheme["scheme"]: [row["ranks"] for row in scheme["by_ranks"]] for scheme in plan["schemes"]}
assert ranks == {"torus": [1, 4, 8, 9], "ring": [1, 2, 4, 8, 9]}, ranks
assert any(note.startswith("left out: 2 ranks (torus): ") for note in plan["notes"]), plan["notes"]
PY
program "${torus[@]}" --vary compressor.name=none --ranks 2,4
expect_failure 2 'torus.*found 2' "plan of two ranks with a torus"

# The first epochs of dgc are denser: 0.01^(k/5) of the values in epoch k of a warm-up of four.
for epochs in 3 30; do
  program plan --config "$CONFIGS/cifar10_resnet20/dgc.json" --cluster "$CONFIGS/clusters/raspberry-pi-8.json" \
    --json --set train.epochs=$epochs --set compressor.warmup_epochs=4 --vary compressor.density=0.01
  expect_code 0 "plan with dgc"
  python3 - "$OUT" $epochs <<'PY' || wrong "plan with dgc: not the epochs of its warm-up"
import json, sys
[scheme] = json.load(open(sys.argv[1]))["schemes"]
first = scheme["first_epochs"]
assert len(first) == min(4, int(sys.argv[2])), first
assert all(abs(epoch["density"] / 0.01 ** (k / 5) - 1) < 1e-6 for k, epoch in enumerate(first, 1)), first
seconds = [epoch["step_seconds"] for epoch in first] + [scheme["step_seconds"]]
assert seconds == sorted(seconds, reverse=True) and seconds[0] > seconds[-1], seconds
PY
done

for algorithm in local-sgd choco-sgd; do
  program plan --config "$CONFIGS/quickstart.json" --cluster "$CONFIGS/clusters/wifi.json" --json \
    --set synchronization.algorithm=$algorithm --vary synchronization.local_steps=1,8
  expect_code 0 "plan with $algorithm"
  python3 - "$OUT" <<'PY' || wrong "plan with $algorithm: eight local steps are not faster"
import json, sys
one, eight = json.load(open(sys.argv[1]))["schemes"]
assert eight["sent_bytes_per_rank"] * 7.9 < one["sent_bytes_per_rank"]
assert eight["step_seconds"] < one["step_seconds"]
PY
done

# Graphs that change: of one-peer-exponential each rank has one neighbour in a step, of a complete
# graph of four it has three.
for kind in one-peer-exponential complete; do
  program plan --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" --json --ranks 4,6 \
    --set synchronization.algorithm=sgp --set synchronization.topology.kind=$kind --vary compressor.name=none
  expect_code 0 "plan with $kind"
  cp "$OUT" "$WORK/$kind"
done
python3 - "$WORK" <<'PY' || wrong "plan with one-peer-exponential: not a neighbour a step"
import json, sys
one, all = (json.load(open(f"{sys.argv[1]}/{kind}"))["schemes"][0]
            for kind in ("one-peer-exponential", "complete"))
assert abs(3 * one["sent_bytes_per_rank"] / all["sent_bytes_per_rank"] - 1) < 1e-9, (one, all)
assert one["step_seconds"] < all["step_seconds"]
PY

program bench codecs --values 4096 --compressor none --compressor e-elastiquant --json
cp "$OUT" "$WORK/speeds.json"
for i in 1 2; do
  program plan --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" --json \
    --vary compressor.name=none,e-elastiquant --calibration "$WORK/speeds.json"
  expect_code 0 "plan --calibration"
  cp "$OUT" "$WORK/plan$i"
done
# The memory of the program itself differs from run to run.
cmp <(grep -v memory "$WORK/plan1") <(grep -v memory "$WORK/plan2") ||
  wrong "plan: with the same calibration two plans differ"

# A calibration from what the other verbs measure here: the cluster says no computing time.
train 1 timed --set train.epochs=2 --set train.steps=26
expect_code 0 "a run to calibrate with"
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- doctor --json --seconds 0.2
expect_code 0 "doctor --json"
cp "$OUT" "$WORK/doctor.json"
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- bench collectives --json --seconds 0.1 \
  --values 4096 --collective dense --collective allgather
expect_code 0 "bench collectives --json"
cp "$OUT" "$WORK/collectives.json"
program plan --calibrate "$WORK/calibration.json" --from "$WORK/timed" --from "$WORK/speeds.json" \
  --from "$WORK/doctor.json" --from "$WORK/collectives.json"
expect_code 0 "plan --calibrate"
write bare.json '{"boards": [{"name": "board", "count": 2, "link": "lan"}],
  "links": {"lan": {"kind": "duplex", "megabits": 100}}}'
program plan --config "$WORK/tiny.json" --cluster "$WORK/bare.json" --json \
  --vary compressor.name=none,e-elastiquant --calibration "$WORK/calibration.json"
expect_code 0 "plan --calibration with a run"
python3 - "$OUT" "$WORK" <<'PY' || wrong "plan --calibration: not the computing time of the run"
import json, statistics, sys
plan, work = json.load(open(sys.argv[1])), sys.argv[2]
steps = [json.loads(line) for line in open(work + "/timed/metrics.jsonl") if '"type":"step"' in line]
alone = statistics.median(s["seconds"]["compute"] for s in steps if s["step"] >= 3)
calibration = json.load(open(work + "/calibration.json"))
assert abs(calibration["runs"][0]["step_seconds"] / alone - 1) < 1e-9
assert {c["compressor"] for c in calibration["codecs"]} == {"none", "e-elastiquant"}
assert calibration["links_within_host"]["count"] == 2
profile = calibration["runs"][0]["profile"]
record = next(json.loads(line) for line in open(work + "/timed/metrics.jsonl") if '"type":"profile"' in line)
assert profile["slices"] == record["slices"] and profile["forward_seconds"] == record["forward_seconds"]
assert calibration["matmul"][0]["flops"] > 0, calibration["matmul"]
assert "links" in calibration["guessed"] and "computing" not in calibration["guessed"]
for row in plan["schemes"]:
    assert alone <= row["computing_seconds"] < 1.2 * alone + 0.01, row
assert any("computing time of board" in note for note in plan["notes"]), plan["notes"]
assert any("gradients are ready: of the run" in note for note in plan["notes"]), plan["notes"]
assert not any("another processor" in note for note in plan["notes"]), plan["notes"]
PY

# Without overlap all gradients count as ready at the end, so that moments do not matter; with it a
# network whose gradients are ready only then takes longer.
python3 - "$WORK/calibration.json" "$WORK/late.json" <<'PY'
import json, sys
calibration = json.load(open(sys.argv[1]))
profile = calibration["runs"][0]["profile"]
for slice in profile["slices"]:
    slice["ready_seconds"] = profile["forward_seconds"] + profile["backward_seconds"]
json.dump(calibration, open(sys.argv[2], "w"))
PY
for overlap in true false; do
  for file in calibration late; do
    program plan --config "$WORK/tiny.json" --cluster "$WORK/bare.json" --json --vary compressor.name=none \
      --calibration "$WORK/$file.json" --set synchronization.overlap=$overlap --set synchronization.bucket_mib=0.25
    expect_code 0 "plan with $file moments"
    cp "$OUT" "$WORK/$file-$overlap"
  done
done
python3 - "$WORK" <<'PY' || wrong "plan --calibration: moments of the profile are not used"
import json, sys
seconds = {name: json.load(open(f"{sys.argv[1]}/{name}"))["schemes"][0]["step_seconds"]
           for name in ("calibration-true", "late-true", "calibration-false", "late-false")}
assert seconds["calibration-true"] < seconds["late-true"], seconds
assert abs(seconds["calibration-false"] / seconds["late-false"] - 1) < 1e-9, seconds
PY

# Bits that a run chooses are planned as those that it begins with, which a note says.
program plan --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" --vary compressor.bits=auto,3
expect_code 0 "plan with open bits"
expect_equal 1 "$(grep -c 'with compressor.bits "auto" a run chooses' "$OUT")" "plan with open bits: notes"

# The whole recipe, from a probe: what --json says follows from the probe's records by the formulas of
# docs/plan.md, and the options that it names are a config.
train 2 probe --set compressor.name=auto --set train.steps=24 --set train.epochs=3 --set data.limit_test=256
expect_code 0 "a probe"
accuracy=$(python3 - "$WORK/probe/metrics.jsonl" <<'PY'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
reached = [r["test_accuracy"] for r in records if r["type"] == "epoch"]
print(max(reached))
PY
)
tune=(plan --config "$WORK/tiny.json" --probe "$WORK/probe" --calibration "$WORK/calibration.json")
program "${tune[@]}" --cluster "$WORK/lan.json" --to-accuracy "$accuracy" --json
expect_code 0 "plan --to-accuracy"
cp "$OUT" "$WORK/tuned"
python3 - "$WORK" "$accuracy" <<'PY' || wrong "plan --to-accuracy: figures that do not follow from the probe"
import json, math, sys
work, accuracy = sys.argv[1], float(sys.argv[2])
plan = json.load(open(f"{work}/tuned"))
records = [json.loads(line) for line in open(f"{work}/probe/metrics.jsonl")]
epochs = [(r["step"], r["test_accuracy"]) for r in records if r["type"] == "epoch"]
at = next(i for i, (_, found) in enumerate(epochs) if found >= accuracy)
steps = epochs[at][0]  # the target is an evaluation's own accuracy
probe = plan["probe"]
assert abs(probe["steps"] - steps) < 1e-6 and probe["samples"] == 32 and not probe["extrapolated"], probe
scales = {r["noise_scale"] for r in records if r["type"] == "noise"}
X, q, S = probe["noise_scale"], probe["compression_noise"], probe["steps_at_1"]
assert any(abs(X / scale - 1) < 1e-9 for scale in scales if scale), (X, scales)
assert abs(S * (1 + (1 + q) * X / 32) / steps - 1) < 1e-9, probe
assert {c["local_steps"] for c in plan["candidates"]} == {1, 2, 4, 8, 16}
assert {c["batch_size"] for c in plan["candidates"]} == {8, 16, 32, 64}, "of 256 samples and four ranks"
for c in plan["candidates"] + [plan["one_board"]]:
    B, H, n = c["samples"], c["local_steps"], c["ranks"]
    assert B == n * c["batch_size"], c
    rounds = S * (1 + X / (H * B))
    assert c["target_steps"] == H * math.ceil(rounds - 1e-9), (c, rounds)
    assert abs(c["target_seconds"] / (c["target_steps"] * c["step_seconds"]) - 1) < 1e-9
    assert abs(c["learning_rate"] / (0.05 * (1 + X / 32) / (H + X / B)) - 1) < 1e-3, c
    assert f"train.steps={c['target_steps']:.0f}" in c["sets"] and f"optimizer.learning_rate={c['learning_rate']:.4g}" in c["sets"]
seconds = {(c["batch_size"], c["local_steps"]): c["step_seconds"] for c in plan["candidates"]}
assert seconds[64, 1] > seconds[16, 1] > 0 and seconds[16, 16] < seconds[16, 2], seconds  # larger batches, fewer rounds
best, first = plan["candidates"][0], min(c["target_seconds"] for c in plan["candidates"])
assert best == plan["choice"] and best["target_seconds"] <= 1.02 * first, (best, first)
assert " --set ".join(plan["choice"]["sets"]) in plan["summary"], plan["summary"]
assert plan["as_it_is"]["batch_size"] == 16 and plan["as_it_is"]["local_steps"] == 1
PY
mapfile -t chosen < <(python3 -c "
import json
for words in json.load(open('$WORK/tuned'))['choice']['sets']: print('--set', words, sep='\n')")
program check --config "$WORK/tiny.json" "${chosen[@]}"
expect_code 0 "a config with the chosen keys"
program "${tune[@]}" --cluster "$WORK/lan.json" --to-accuracy "$accuracy"
expect_code 0 "plan --to-accuracy in text"
head -1 "$OUT" | grep -q "^Soonest at an accuracy of .*--set train.batch_size=.*the config as it is" ||
  wrong "plan --to-accuracy: its first line is: $(head -1 "$OUT")"
grep -q 'local steps' "$OUT" || wrong "plan --to-accuracy: no table"

program schema --cluster
expect_code 0 "schema --cluster"
python3 - "$OUT" "$CONFIGS/clusters/seeds-rack.json" <<'PY' || wrong "schema --cluster: not the keys of a cluster"
import json, sys
schema, cluster = (json.load(open(path)) for path in sys.argv[1:])
assert set(cluster) <= set(schema["properties"]), schema["properties"].keys()
keys = schema["properties"]["boards"]["items"]["properties"]
assert all(set(board) <= set(keys) for board in cluster["boards"]), keys
PY

refused() { # WORDS ARGUMENT...
  local words=$1
  shift
  program plan "$@"
  expect_code 2 "plan $*"
  grep -q -- "$words" "$ERR" || wrong "plan $*: expected \"$words\" in: $(cat "$ERR")"
}
refused "found none at" --config "$WORK/resnet18.json" --cluster "$WORK/nowhere.json"
refused "unknown key" --config "$WORK/resnet18.json" --cluster "$WORK/resnet18.json"
refused "take their steps together" --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" \
  --set synchronization.algorithm=ad-psgd --vary seed=1
refused "qsr" --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" --vary seed=1 \
  --set synchronization.algorithm=local-sgd --set synchronization.local_steps=qsr
refused "KEY=VALUE" --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" --vary seed
refused "compressor qsgd" --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" \
  --vary compressor.name=qsgd --calibration "$WORK/speeds.json"

refused "step_seconds or flops" --config "$WORK/tiny.json" --cluster "$WORK/bare.json"
refused "a run of resnet18" --config "$WORK/resnet18.json" --cluster "$WORK/bare.json" \
  --calibration "$WORK/calibration.json"
sed -i 's/"megabits": 100/"latency_ms": 1/' "$WORK/bare.json"
refused "links between hosts" --config "$WORK/tiny.json" --cluster "$WORK/bare.json" \
  --calibration "$WORK/calibration.json"
# Numbers that are none of a plan, and files that never end.
for wrong in inf nan 0; do
  refused "noise-scale: expected a number from" --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" \
    --steps-at-1 100 --noise-scale "$wrong"
  refused "steps-at-1: expected a number from" --config "$WORK/resnet18.json" --cluster "$WORK/lan.json" \
    --steps-at-1 "$wrong" --noise-scale 100
done
sed 's/"megabits": *[0-9.]*/"megabits": 5e-324/' "$WORK/lan.json" >"$WORK/still.json"
refused "megabits: expected a number above 0, of at least 1e-09" --config "$WORK/tiny.json" \
  --cluster "$WORK/still.json"
mkfifo "$WORK/pipe"
mkdir "$WORK/unfinished"
cp "$WORK/timed/config.json" "$WORK/timed/summary.json" "$WORK/unfinished"
for endless in "$WORK/pipe" /dev/zero; do
  refused "found none at $endless" --config "$WORK/tiny.json" --cluster "$endless"
  ln -sf "$endless" "$WORK/unfinished/metrics.jsonl"
  RUN_LIMIT=20 program plan --calibrate "$WORK/c.json" --from "$WORK/unfinished"
  expect_failure 3 'records of steps' "plan --calibrate: records at $endless"
done

# Probes that tell nothing, and targets that a probe does not support.
aims() { # WORDS CODE ARGUMENT...
  local words=$1 code=$2
  shift 2
  program plan --config "$WORK/tiny.json" --cluster "$WORK/lan.json" --calibration "$WORK/calibration.json" "$@"
  expect_failure "$code" "$words" "plan $*"
}
aims 'to-accuracy requires --probe' 2 --to-accuracy 0.5
aims 'between 0 and 1' 2 --to-accuracy 50 --probe "$WORK/probe"
aims 'between 0 and 1' 2 --to-accuracy 100% --probe "$WORK/probe"
aims 'excludes' 2 --to-accuracy 0.5 --probe "$WORK/probe" --vary seed=1
aims 'without --plot and --page' 2 --to-accuracy 0.5 --probe "$WORK/probe" --page "$WORK/tuned.html"
aims 'noise scale' 3 --to-accuracy 0.5 --probe "$WORK/timed"
aims 'expected a probe' 3 --to-accuracy 0.9999 --probe "$WORK/probe"
aims 'optimizer.name' 2 --to-accuracy 50% --probe "$WORK/probe" --set optimizer.name=adamw
aims 'model.name' 2 --to-accuracy 50% --probe "$WORK/probe" --set model.name=resnet56
aims 'local-sgd' 2 --to-accuracy 50% --probe "$WORK/probe" --set synchronization.algorithm=choco-sgd
mkdir "$WORK/blind"
cp "$WORK/probe/config.json" "$WORK/blind"
grep -v '"type":"epoch"' "$WORK/probe/metrics.jsonl" >"$WORK/blind/metrics.jsonl"
aims 'test_accuracy' 3 --to-accuracy 0.5 --probe "$WORK/blind"

# Names with characters that mean something in JSON pointers.
program plan --config "$WORK/tiny.json" --cluster "$WORK/lan.json" --vary name=a~b,c
expect_code 0 "plan with names"
grep -qE '^ranks +a~b +c$' "$OUT" || wrong "plan with names: expected columns of them"
refused "only one of" --calibrate "$WORK/c.json"
refused "expected what doctor" --calibrate "$WORK/c.json" --from "$WORK/lan.json"
[[ ! -e $WORK/c.json ]] || wrong "plan --calibrate: a refused one left a file"
refused "another file than those that are read" --calibrate "$WORK/speeds.json" --from "$WORK/speeds.json"
refused "no record of a run" --calibrate "$WORK/timed/config.json" --from "$WORK/timed"

finish
