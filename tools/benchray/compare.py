"""Measures Ray and raysys in turn on this machine, and writes the table between the marks of docs/benchmarks.md.

Usage: compare.py RAYSYS-LAB ROUNDS DOCUMENT, with the Python of an environment that has requirements.txt. make bench-ray runs it.
Each round is one run of Ray's rows and one of raysys-lab bench --tier cross-process; the figures are medians over the rounds.
"""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROWS = ["tasks_async", "tasks_multi_client_async", "tasks_sync", "actor_async", "actor_n_n_async", "actor_sync", "put_small", "wait_1k"]
BEGIN, END = "<!-- begin bench-ray -->", "<!-- end bench-ray -->"


def run(command):
    p = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(p.stdout)


def per_second(result):
    """A row's rate and its raw limit's; a latency row gives operations one after the other."""
    value, limit = result["value"], result["limit_value"]
    if result["unit"] == "us":
        return 1e6 / value, 1e6 / limit
    return value, limit


def measure(lab, rounds):
    ray, ours, limits, names = {}, {}, {}, {}
    for i in range(rounds):
        print(f"round {i + 1} of {rounds}: Ray", file=sys.stderr)
        for row, value in run([sys.executable, str(HERE / "ray_rows.py")]).items():
            ray.setdefault(row, []).append(value)
        print(f"round {i + 1} of {rounds}: raysys", file=sys.stderr)
        for r in run([lab, "bench", "--tier", "cross-process", "--rounds", "1", "-o", "json", "--row", ",".join(ROWS)]):
            value, limit = per_second(r)
            ours.setdefault(r["row"], []).append(value)
            limits.setdefault(r["row"], []).append(limit)
            names[r["row"]] = r["limit"]
    return ray, ours, limits, names


def figure(v):
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if v >= size:
            return f"{v / size:.3g} {unit}/s"
    return f"{v:.3g} /s"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def table(lab, rounds):
    ray, ours, limits, names = measure(lab, rounds)
    version = subprocess.run([lab, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip().replace("raysys-lab", "raysys") or "raysys"
    lines = [
        f"{datetime.date.today()}, {os.cpu_count()} CPUs ({processor()}), Linux {platform.release().split('-')[0]}, "
        f"Ray {importlib.metadata.version('ray')} on Python {platform.python_version()}, {version}; medians of {rounds} rounds in turn.",
        "",
        "| row | Ray | raysys | ratio | least and most of a round | raw limit |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        ratios = sorted(o / r for o, r in zip(ours[row], ray[row]))
        lines.append(
            f"| {row} | {figure(statistics.median(ray[row]))} | {figure(statistics.median(ours[row]))} | {statistics.median(ratios):.0f} | "
            f"{ratios[0]:.0f} to {ratios[-1]:.0f} | {names[row]}: {figure(statistics.median(limits[row]))} |"
        )
    return "\n".join(lines)


def main():
    lab, rounds, document = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    text = document.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"{document} has no lines {BEGIN} and {END}: put them where the table belongs")
    made = table(lab, rounds)
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    document.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}")
    print(made)


if __name__ == "__main__":
    main()
