#!/usr/bin/env bash
# Training with compressed gradients learns: ten classes of drawn images, far above chance (0.1).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

train 2 learns --set data.limit_train=1536 --set data.limit_test=512 --set train.steps=0 \
  --set train.epochs=2 --set compressor.name=e-elastiquant --set compressor.bits=4 \
  --set schedule.kind=cosine --set output.progress=lines
expect_code 0 "a run that learns"
[[ $CODE -eq 0 ]] || finish

# ln 10 = 2.303 is the loss of guessing.
expect_number "$(summary train_loss)" "<" 2.0 "loss in the last epoch"
expect_number "$(summary test_accuracy)" ">=" 0.35 "accuracy on images not trained on"
expect_number "$(summary compression_ratio)" ">=" 6 "compression ratio"
expect_equal true "$(summary replicas_identical)" "replicas after training"
expect_equal 2 "$(summary ranks)" "ranks"
expect_equal 2 "$(summary epochs)" "epochs"
expect_equal 96 "$(summary steps)" "steps of 2 epochs of 1536 samples in batches of 16 on 2 ranks"
for file in config.json metrics.jsonl summary.json model.pt; do
  [[ -s $RUN/$file ]] || wrong "the run folder has no $file"
done
grep -qE 'accuracy' "$OUT" || wrong "stdout shows no table of results"

# Every record is JSON of a known type, and the epochs' bytes add up to the summary's.
python3 - "$RUN" <<'PY' || wrong "metrics.jsonl is not what the summary says"
import json, sys
folder = sys.argv[1]
records = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
summary = json.load(open(folder + "/summary.json"))
kinds = [r["type"] for r in records]
assert kinds[0] == "run" and kinds.count("run") == 1, kinds[:3]
assert kinds.count("epoch") == 2, kinds.count("epoch")
steps = [r["step"] for r in records if r["type"] == "step"]
assert len(steps) == 96 and sorted(set(steps)) == steps, "steps in order, each once"
sent = sum(r["sent_bytes"] for r in records if r["type"] == "epoch")
assert sent == summary["sent_bytes"] > 0, (sent, summary["sent_bytes"])
ratio = summary["dense_bytes"] / summary["sent_bytes"]
assert abs(ratio / summary["compression_ratio"] - 1) < 1e-6, ratio
PY
finish
