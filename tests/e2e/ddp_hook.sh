#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's DistributedDataParallel on two ranks with our codecs: docs/examples/ddp_hook.py.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python=/usr/bin/python3  # Debian's, which python3-torch belongs to
"$python" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
  skip "python3-torch with Gloo is not installed"
[[ -n ${EQUANT_CODEC_LIBRARY:-} ]] || skip "EQT_C_INTERFACE is off: there is no libequant_codec.so"
hook=$EQT_ROOT/docs/examples/ddp_hook.py

# The example with several compressors, one after another in the same two processes, since PyTorch takes
# seconds to start. rank RANK PORT...: each has a port of its own.
cat >"$WORK/rank.py" <<'PY'
import os, sys
import torch
import torch.distributed as dist
sys.path.append(os.path.dirname(sys.argv[1]))
import ddp_hook
# Lossless, of as many bits as the gradient takes, two that leave something out, which a residual keeps, and 4 bits.
cells = [["none"], ["e-elastiquant"], ["topk"], ["ef-signsgd"], ["qsgd", '{"bits": 4, "bucket_size": 512}', "3"]]
*ports, last_port = sys.argv[2:]
for port, cell in zip(ports, cells, strict=True):
    os.environ["MASTER_PORT"] = port
    ddp_hook.main(*cell)
    dist.destroy_process_group()

class Bucket:
    """What DDP gives to a hook. Gloo of some versions makes no DDP of bfloat16."""
    def __init__(self, gradient):
        self.gradient = gradient
    index, parameters, buffer = lambda self: 0, lambda self: [], lambda self: self.gradient

# Gradients of fewer bits than float32 have their mean, those of more are refused, as are other devices.
os.environ["MASTER_PORT"] = last_port
dist.init_process_group("gloo")
of_ranks = [(torch.arange(101) - 50) * (rank + 1) / 7 for rank in range(2)]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    own = [gradient.to(dtype) for gradient in of_ranks]
    mean = ddp_hook.CodecHook("none").run(Bucket(own[dist.get_rank()].clone())).wait()
    assert mean.dtype == dtype and torch.equal(mean, ((own[0].double() + own[1].double()) / 2).to(dtype)), mean
hook = ddp_hook.CodecHook("topk", {"density": 0.5})
for _ in range(2):
    mean = hook.run(Bucket(of_ranks[dist.get_rank()].bfloat16())).wait()
    assert mean.dtype == torch.bfloat16 and 0 < mean.count_nonzero() < len(mean), mean

def refused(what, work):
    try:
        work()
        print(what, "is taken")
    except Exception as error:
        print(error, file=sys.stderr)

def step_in_float64():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 3).double())
    model.register_comm_hook(ddp_hook.CodecHook("none"), ddp_hook.CodecHook.run)
    model(torch.ones(4, 5).double()).sum().backward()

refused("float64", step_in_float64)
refused("another device", lambda: ddp_hook.CodecHook("none").run(Bucket(torch.zeros(4, device="meta"))).wait())
dist.destroy_process_group()
try:
    ddp_hook.CodecHook("qsgdd")
    print("an unknown compressor is taken")
except ValueError as error:
    print(error, file=sys.stderr)
PY
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
mapfile -t ports < <("$python" -c 'import socket
sockets = [socket.socket() for _ in range(6)]
for each in sockets: each.bind(("", 0))
for each in sockets: print(each.getsockname()[1])')
RANK=1 timeout 100 "$python" "$WORK/rank.py" "$hook" "${ports[@]}" >"$WORK/rank1" 2>&1 &
other=$!
RUN_LIMIT=100 run env RANK=0 "$python" "$WORK/rank.py" "$hook" "${ports[@]}"
wait "$other" || wrong "rank 1 of ddp_hook.py: $(tail -3 "$WORK/rank1")"
expect_code 0 "ddp_hook.py"
expect_equal 5 "$(wc -l <"$OUT")" "lines of ddp_hook.py, one for each compressor"
split -l 1 --numeric-suffixes=1 -a 1 "$OUT" "$WORK/result"
for cell in 1=none 2=e-elastiquant 3=topk 4=ef-signsgd; do
  result=$WORK/result${cell%%=*}
  expect_equal true "$(value "$result" identical)" "${cell#*=}: replicas"
  expect_number "$(value "$result" last_loss)" "<" "$(value "$result" first_loss)" "${cell#*=}: the loss"
done
dense=$((4 * $(value "$WORK/result5" parameters)))
expect_number "$(value "$WORK/result5" bytes_per_step)" "<" $((dense / 7)) "4 bits: bytes that a step sends, of $dense"

expect_text 'the nearest is "qsgd"' "an unknown compressor"
expect_text 'expected gradients of type float32, float16 or bfloat16 .*, found torch.float64 on cpu' "float64"
expect_text 'expected gradients of type .* on the device cpu, found torch.float32 on meta' "another device"

# As a program: a sentence, no trace.
for words in 'qsgdd' 'qsgd {' 'qsgd {"bits":9}' 'none {} 0'; do
  # shellcheck disable=SC2086  # its words
  RUN_LIMIT=100 run env MASTER_PORT="${ports[0]}" RANK=0 WORLD_SIZE=1 "$python" "$hook" $words
  expect_failure 1 'ddp_hook.py: ' "ddp_hook.py $words"
done
finish
