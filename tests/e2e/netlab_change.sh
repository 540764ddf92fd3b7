#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# netlab.sh --change: all links get another rate during a run, and the run's records say so.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
netlab=$EQT_ROOT/scripts/netlab.sh
"$netlab" --check >"$WORK/check" 2>&1 || skip "$(cat "$WORK/check")"

# Rank 1 waits until its own link has the later rate, then sends 500 kB: half a second at 8 Mb/s, a
# twentieth of it at 80.
cat >"$WORK/transfer.py" <<'PY'
import os, socket, struct, subprocess, time
def shaped(rate):
    return f"rate {rate}bit " in subprocess.run(
        ["tc", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True).stdout
if os.environ["RANK"] == "0":
    early = shaped("80M")
    peer = socket.create_server(("", 5000)).accept()[0]
    got = b""
    while chunk := peer.recv(1 << 16):
        got += chunk
    print(early, len(got), time.monotonic() - struct.unpack("d", got[:8])[0])
else:
    for attempt in range(600):
        if shaped("8M"):
            break
        time.sleep(0.1)
    peer = socket.create_connection((os.environ["MASTER_ADDR"], 5000))
    peer.sendall(struct.pack("d", time.monotonic()) + bytes(499_992))
    print(os.environ["EQT_LABORATORY"])
PY
run "$netlab" --ranks 2 --rate 80mbit --change 2:8mbit --change 500:80mbit --no-mpi -- \
  python3 "$WORK/transfer.py"
expect_code 0 "a transfer after a change"
read -r early got seconds < <(grep True "$OUT")
expect_equal True "$early" "the first rate at the start"
expect_equal 500000 "$got" "bytes that arrived"
# 66 bytes are added to every 1448, and a burst of 4 KiB passes at once.
expect_number "$seconds" '>=' 0.518 "seconds that 500 kB take at 8 Mb/s"
shaping="hosts=2 ranks_per_host=1 rates=80mbit,80mbit queue=200ms changes=2:8mbit,500:80mbit"
expect_equal "$shaping" "$(grep hosts= "$OUT")" "EQT_LABORATORY"

# A run's records have it.
run "$netlab" --ranks 2 --rate 50mbit --rate-of 1=20mbit -- "$EQT_PROGRAM" \
  --config "$WORK/tiny.json" --out "$WORK/shaped" --set train.steps=1
expect_code 0 "a run in the laboratory"
expect_equal "hosts=2 ranks_per_host=1 rates=50mbit,20mbit queue=200ms" \
  "$(value <(head -n 1 "$WORK/shaped/metrics.jsonl") laboratory)" "the record of the laboratory"
train 1 usual --set train.steps=1
expect_equal absent "$(value <(head -n 1 "$RUN/metrics.jsonl") laboratory)" "a run outside of it"

for bad in "--change 5" "--change x:1mbit" "--change 5:fast" "--change 5:unlimited" \
  "--change 0:1mbit" "--change 5:1mbit --change 5:2mbit" "--change 9:1mbit --change 5:2mbit" \
  "--rate unlimited --change 5:1mbit" "--rate-of 1=unlimited --change 5:1mbit"; do
  # shellcheck disable=SC2086  # options and their values
  run "$netlab" $bad -- true
  expect_failure 2 "--change" "netlab.sh $bad"
done
EQT_LABORATORY=$'two\nlines' train 1 hostile --set train.steps=1
expect_failure 2 'EQT_LABORATORY' "a laboratory that is no line"
finish
