"""Opens our event files with TensorBoard itself, and compares what it reads with the CSV log of the same run.

    pip install tensorboard
    cargo run --release -p gradus-train --example watched_run -- FOLDER
    python tools/check_tensorboard.py FOLDER
"""
import csv
import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder = sys.argv[1]
events = os.path.join(folder, "events")
rows = list(csv.DictReader(open(os.path.join(folder, "log.csv"))))
reader = EventAccumulator(events, size_guidance={"scalars": 0})
reader.Reload()
tags = set(reader.Tags()["scalars"])
metrics = [k for k in rows[0] if k not in ("epoch", "step", "lr", "seconds")]
assert tags == {"train/loss", "train/lr"} | {f"epoch/{m}" for m in metrics}, tags
for metric in metrics:
    read = {e.step: e.value for e in reader.Scalars(f"epoch/{metric}")}
    for row in rows:
        want, have = float(row[metric]), read[int(row["step"])]
        assert math.isclose(want, have, rel_tol=1e-6), (metric, row["step"], want, have)
steps = [e.step for e in reader.Scalars("train/loss")]
assert steps == list(range(1, int(rows[-1]["step"]) + 1)), "a loss for every step, in order"
print(f"read by EventAccumulator: {len(steps)} losses, {len(rows)} epochs of {metrics}")

# And as a browser sees it.
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
server = subprocess.Popen(
    [sys.executable, "-m", "tensorboard.main", "--logdir", events, "--port", str(port)],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
try:
    url = f"http://127.0.0.1:{port}/data/plugin/scalars/tags"
    for _ in range(60):
        time.sleep(1)
        try:
            found = json.load(urllib.request.urlopen(url))
            if found and set().union(*(set(run) for run in found.values())) == tags:
                break
        except OSError:
            pass
    else:
        sys.exit("the server did not show the tags")
    print("served by tensorboard:", {run: sorted(t) for run, t in found.items()})
finally:
    server.terminate()
