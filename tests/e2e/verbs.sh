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
# The option before the cursor says what is offered; a verb's name behind it is no verb.
expect_equal safetensors "$(offered equant-train export run --to sa)" "completing a value"
expect_equal train "$(offered equant-train evaluate run --split = tr)" "completing a value behind ="
expect_equal qsgd-v "$(offered equant-train bench codecs --compressor qsgd-)" "completing a compressor"
expect_equal "" "$(offered equant-train --out "")" "completing a file, which bash does"
expect_equal "" "$(offered equant-train bench codecs --values "")" "completing a number"
expect_equal --out "$(offered equant-train report --out list --ou)" "completing behind a folder called list"
expect_equal compressor.density= "$(offered equant-train plan --vary compressor.dens)" "completing a key of --vary"
expect_equal none,qsgd-v "$(offered equant-train plan --vary compressor.name = none,qsgd-)" "completing a list"

program check --config "$WORK/tiny.json" --set optimizer.learning_rate=0.25
expect_code 0 "check"
cp "$OUT" "$WORK/resolved.json"
expect_equal 0.25 "$(value "$WORK/resolved.json" optimizer.learning_rate)" "check shows --set"
expect_equal '"tiny"' "\"$(value "$WORK/resolved.json" name)\"" "check shows the file"
program check --config "$WORK/resolved.json"
expect_code 0 "check of a resolved config"
cmp -s "$OUT" "$WORK/resolved.json" || wrong "the resolved config of a resolved config differs"
expect_equal absent "$(value "$OUT" checkpoint)" "a short config"
program check --full --config "$WORK/resolved.json"
expect_equal 2 "$(value "$OUT" checkpoint.keep)" "a full config"
# One file for both: the config comes first, in one piece.
run bash -c '"$EQT_PROGRAM" check --full --config "$1" 2>&1' - "$WORK/resolved.json"
python3 - "$OUT" <<'PY' || wrong "check: the config is mixed with other lines"
import json, sys
text = open(sys.argv[1]).read()
config, end = json.JSONDecoder().raw_decode(text)
assert config["checkpoint"]["keep"] == 2 and "memory: about" in text[end:], text[end:]
PY
program check --config "$WORK/tiny.json" --set no.such.key=1
expect_failure 2 'no\.such\.key' "check with an unknown key"
[[ ! -d $WORK/runs ]] || wrong "check made a run folder"
# More of check: app/unit/check_test.cpp; what each verb refuses: app/unit/command_line_test.cpp.
program check --epochs=3
expect_failure 2 'check: .*--set train\.epochs=3' "an unknown option"
[[ ! -s $OUT ]] || wrong "an unknown option: expected nothing on stdout"
program
expect_failure 2 '--config FILE' "no argument at all"
finish
