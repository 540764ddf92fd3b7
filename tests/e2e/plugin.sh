#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A user's compressor in a shared object: listed, checked, used in training, recorded; refused if
# ranks differ or if it violates the interface.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

plugins=$EQT_BUILD_DIR/tests/plugins
[[ -e $plugins/mean_sign.so ]] || skip "the plugins are not built: target codec_plugin"
mine=(--plugin "$plugins/mean_sign.so")

program list compressors "${mine[@]}"
expect_code 0 "list"
grep -q '^mean-sign .*an example of a plugin' "$OUT" || wrong "list: expected a line about mean-sign"
program list compressors
! grep -q mean-sign "$OUT" || wrong "list without --plugin: expected no mean-sign"
program check --config tiny.json "${mine[@]}" --set compressor.name=mean-sign
expect_code 0 "check"
program check --config tiny.json "${mine[@]}" --set compressor.name=mean-sign --set synchronization.error_feedback=ef21
expect_code 0 "check with ef21, for a plugin without a bound"
program check --config tiny.json --set compressor.name=mean-sign
expect_failure 2 'mean-sign' "check without --plugin"
program bench codecs "${mine[@]}" --compressor mean-sign --values 10000 --json
expect_code 0 "bench"
expect_equal mean-sign "$(value "$OUT" compressor)" "bench: the compressor"

program analyze variance "${mine[@]}" --compressor mean-sign --values 4096 --json
expect_code 0 "analyze"
expect_equal mean-sign "$(value "$OUT" compressor)" "analyze: the compressor"

command -v mpirun >/dev/null || { finish; exit; }
compressed=("${mine[@]}" --set compressor.name=mean-sign --set synchronization.collective=allgather)
train 2 first "${compressed[@]}"
expect_code 0 "training"
expect_equal true "$(summary replicas_identical)" "replicas"
expect_equal mean-sign "$(summary compressor)" "summary"
expect_number "$(summary compression_ratio)" '>' 8 "compression ratio"
first=$(summary parameter_hash)
python3 - "$RUN/metrics.jsonl" "$plugins/mean_sign.so" <<'PY' || wrong "run record: the plugin's name, file and hash"
import json, sys
record = json.loads(open(sys.argv[1]).readline())
plugin, = record["plugins"]
assert plugin["name"] == "mean-sign" and plugin["file"] == sys.argv[2] and len(plugin["hash"]) == 16, plugin
PY
train 2 second "${compressed[@]}"
expect_equal "$first" "$(summary parameter_hash)" "the same run again"

cp "$plugins/mean_sign.so" changed.so
train 2 resumed --plugin "$WORK/changed.so" "${compressed[@]:2}" --set checkpoint.every_steps=2
expect_code 0 "a run to go on from"
printf x >>changed.so
train 2 resumed --plugin "$WORK/changed.so" "${compressed[@]:2}" --set train.steps=6 --resume
expect_failure 3 'found --plugin mean-sign a file with the hash .* instead of' "--resume with another plugin"

RUN=$WORK/differ
run_by_rank -- "$EQT_PROGRAM" --out "$RUN" --config tiny.json "${mine[@]}" : \
  "$EQT_PROGRAM" --out "$RUN" --config tiny.json --plugin "$plugins/floats.so"
expect_failure 2 'rank 1: expected the command line of rank 0, found --plugin floats' "another plugin on rank 1"

train 2 crash --plugin "$plugins/crashes_at_size.so" --set compressor.name=crashes-at-size
expect_code 70 "a plugin that crashes in a step"
expect_text 'crashes_at_size.so crashed in its own code' "a plugin that crashes in a step"
train 1 past --plugin "$plugins/writes_past.so" --set compressor.name=writes-past
expect_failure 70 'outside its payload' "a plugin that writes past its payload"
train 1 draws --plugin "$plugins/not_deterministic.so" --set compressor.name=not-deterministic
expect_failure 2 'the same payload each time' "a plugin that is not deterministic"

echo '{"configs": [{"name": "mean-sign", "config": "tiny.json", "set": {"compressor.name": "mean-sign"}}],
  "simulate": true, "ranks": 2, "threads": 1, "plan_links": 10, "plan_step_seconds": 0.1}' >sweep.json
run "$EQT_ROOT/scripts/sweep.sh" sweep.json --out "$WORK/sweep" -- "${mine[@]}"
expect_code 0 "a sweep with a plugin"
! grep -q 'no plan of' "$OUT" || wrong "a sweep with a plugin has no plan: $(grep 'no plan of' "$OUT")"

mkfifo "$WORK/pipe.so"
for what in "$WORK" "$WORK/pipe.so" /dev/zero; do
  RUN_LIMIT=20 program list --plugin "$what"
  expect_failure 2 "a shared object for --plugin at $what" "a plugin at $what"
done
train 1 deep --plugin "$plugins/uses_up_the_stack.so" --set compressor.name=uses-up-the-stack
expect_failure 70 'uses_up_the_stack.so crashed in its own code' "a plugin that uses up the stack"
program list --plugin "$plugins/other_version.so"
expect_failure 2 'of version 1, found 2' "a plugin of another version"
program list --plugin "$plugins/no_symbol.so"
expect_failure 2 'equant_compressor_plugin' "a shared object without the function"
finish
