#!/usr/bin/env python3
"""Runs gradus's and PyTorch's GPU benchmarks one after the other on this machine and prints their ratios.

usage: gpu_compare.py --bench BENCH --torch TORCH_GPU_PY [--compile] [--json FILE] [NAME ...]

BENCH is the program that `cargo build --release -p gradus-bench` makes; TORCH_GPU_PY is the script that prints
PyTorch's side, one JSON line a workload. Names choose workloads by the start of their name on gradus's side, and
exactly on PyTorch's. Both sides print one JSON line a workload; times are medians in milliseconds.
"""
import argparse
import json
import subprocess
import sys


def lines(command):
    """The JSON lines of a program, by workload; what else it says goes to stderr."""
    out = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            try:
                row = json.loads(line)
                out[row["work"]] = row
            except (ValueError, KeyError):
                print(line, end="", file=sys.stderr)
    if p.returncode:
        print(f"{command[0]} ended with {p.returncode}", file=sys.stderr)
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--bench", required=True)
    a.add_argument("--torch", required=True)
    a.add_argument("--compile", action="store_true", help="also PyTorch compiled")
    a.add_argument("--json", help="write all lines here")
    a.add_argument("names", nargs="*")
    args = a.parse_args()
    ours = lines([args.bench, "--json", "--device", "cuda", *args.names])
    peers = {"eager": lines([sys.executable, args.torch, *args.names])}
    if args.compile:
        peers["compiled"] = lines([sys.executable, args.torch, "--compile", *args.names])
    if args.json:
        with open(args.json, "w") as f:
            for row in [*ours.values(), *(r for p in peers.values() for r in p.values())]:
                print(json.dumps(row), file=f)
    head = "".join(f"{'PyTorch ' + p + ' ms':>22}{'ratio':>8}" for p in peers)
    print(f"{'work':<28}{'gradus ms':>12}{'rate':>22}{head}")
    for work, row in ours.items():
        rate = next((f"{row[k]} {k}" for k in ("TBps", "TFLOPs", "tok_s", "per_s") if row.get(k)), "")
        text = f"{work:<28}{row['ms']:>12.5f}{rate:>22}"
        for p in peers.values():
            other = p.get(work)
            # Above 1: gradus is faster.
            text += f"{other['ms']:>22.5f}{other['ms'] / row['ms']:>8.2f}" if other else f"{'-':>22}{'-':>8}"
        print(text)


main()
