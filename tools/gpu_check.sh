#!/usr/bin/env bash
# Checks the CUDA backend on a machine with a GPU against the oracle and PyTorch's samples, several processes at once
# (compiling takes most of the time), and prints counts.
#
# usage: gpu_check.sh CONFORMANCE OPINFO_DIR [PROCESSES]
# CONFORMANCE is the program that `cargo build --release -p gradus-conformance` makes.
set -uo pipefail
conformance=$1 samples=$2 n=${3:-$(nproc)}
logs=$(mktemp -d)
for ((i = 0; i < n; i++)); do
    "$conformance" opinfo "$samples" --device cuda --shard "$i/$n" >"$logs/opinfo.$i" 2>&1 &
    "$conformance" programs --device cuda --count 250 --seed "$((i + 1))" >"$logs/programs.$i" 2>&1 &
done
wait
grep -h FAIL "$logs"/opinfo.* | cut -c1-200
grep -h 'no such op' "$logs"/opinfo.*
grep -hv '^programs on' "$logs"/programs.* | head -n 60
awk '/^opinfo:/ { o += $2; ops += $4; c += $6; cases += $8 }
     /^programs on/ { r += $4; s += $6; w += $(NF - 1) }
     END { printf "opinfo: %d of %d ops, %d of %d cases\nprograms: %d run, %d with the same bits, %d wrong\n",
           o, ops, c, cases, r, s, w }' "$logs"/*
rm -r "$logs"
