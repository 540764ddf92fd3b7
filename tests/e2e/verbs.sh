#!/usr/bin/env bash
# What the program tells without training.
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

program check --config "$WORK/tiny.json" --set optimizer.learning_rate=0.25
expect_code 0 "check"
cp "$OUT" "$WORK/resolved.json"
expect_equal 0.25 "$(value "$WORK/resolved.json" optimizer.learning_rate)" "check shows --set"
expect_equal '"tiny"' "\"$(value "$WORK/resolved.json" name)\"" "check shows the file"
program check --config "$WORK/resolved.json"
expect_code 0 "check of a resolved config"
cmp -s "$OUT" "$WORK/resolved.json" || wrong "the resolved config of a resolved config differs"
program check --config "$WORK/tiny.json" --set no.such.key=1
expect_failure 2 'no\.such\.key' "check with an unknown key"
[[ ! -d $WORK/runs ]] || wrong "check made a run folder"
for file in "$EQT_ROOT"/configs/*.json "$EQT_ROOT"/configs/*/*.json; do
  [[ -e $file ]] || continue
  program check --config "$file"
  expect_code 0 "check of ${file#"$EQT_ROOT"/}"
done

program analyze volume --model vgg11 --normalization evonorm-s0 --ranks 16 --edges 4 --json
expect_code 0 "analyze volume"
python3 - "$OUT" <<'PY' || wrong "analyze volume: not the published volume, or sent bytes are not four edges of float32"
import json, sys
volume = json.load(open(sys.argv[1]))
steps = 98 * 200
assert volume["steps"] == steps, volume
assert volume["paper"]["bytes_per_step"] == 4 * (9496522 + 1), volume
assert round(volume["paper"]["gigabytes"], 1) == 744.5, volume
sent = volume["sent"]
assert sent["payload_bytes_per_step"] == 4 * 4 * 9496522, volume
assert sent["header_bytes_per_step"] == 32 * sent["frames_per_step"], volume
assert sent["bytes_per_step"] == sent["payload_bytes_per_step"] + sent["header_bytes_per_step"]
PY
program analyze volume --json
expect_code 0 "the table of analyze volume"
python3 - "$OUT" <<'PY' || wrong "analyze volume: the table differs from the published one where it should not"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
def row(model, ranks, density, epoch):
    [found] = [r for r in rows if (r["model"], r["ranks"], r["density"], r["steps_per_epoch"]) ==
               (model, ranks, density, epoch)]
    return found["paper"]["gigabytes"]
assert round(row("resnet20", 8, None, 196), 2) == 42.85
assert round(row("resnet20", 8, 0.01, 196), 3) == 0.651
assert round(row("resnet54", 8, None, 196), 1) == 119.2
assert round(row("resnet54", 8, 0.01, 196), 3) == 1.808
assert round(row("resnet20", 16, None, 97), 1) == 21.2
assert round(row("resnet20", 16, 0.1, 97), 3) == 3.177
assert round(row("vgg11", 16, None, 98), 1) == 744.5
assert round(row("vgg11", 16, 0.01, 98), 3) == 11.167
for r in rows:
    assert r["sent"]["gigabytes"] > r["paper"]["gigabytes"] * (0.5 if r["density"] else 1)
PY
program analyze volume --ranks 4
expect_failure 2 'model' "analyze volume with a question that no model answers"
program analyze volume --model vgg12
expect_failure 2 'vgg11' "analyze volume of an unknown model"
program analyze volume --model alexnet --normalization evonorm-s0
expect_failure 2 'alexnet' "analyze volume of a normalization that the model has not got"
program analyze volume --model resnet20 --ranks 2 --edges 2
expect_failure 2 'edges' "analyze volume with more neighbours than ranks"
program analyze volum
expect_failure 2 'volume' "a misspelt question"
program analyze
expect_failure 2 'nothing' "analyze of nothing"

program
expect_code 2 "no argument at all"
program --configure x
expect_code 2 "an unknown flag"
finish
