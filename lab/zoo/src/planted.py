"""The results of trials with a planted effect, compared with the truth (lab/zoo/planted.sh).

usage: planted.py --row NAME MODE PERCENT EXIT_CODE ANSWER SAID     one line of JSON
       planted.py FILE…                                             the table, and how many were found
"""

import json
import statistics
import sys


def row(name, mode, percent, code, answer, said):
    """One trial. The truth is the planted share of the work, as far as work is in the metric that decided."""
    one = {"server": f"{name}:{mode}", "planted": int(percent), "exit": int(code)}
    with open(said) as file:
        one["said"] = file.read().strip().splitlines()[-3:]
    try:
        with open(answer) as file:
            found = json.load(file)
        effect = found["effect"]
    except (ValueError, KeyError):
        return one
    metric = found["metric"]["name"]
    # What the kernel counted, apart from any tick: whether the plant reached the server at all.
    cpu = next((cost for cost in found["costs"] if cost["name"] == "server_cpu_share"), None)
    base = [window["sample"] for window in found["windows"] if window["arm"] == "A"]
    of = lambda what: statistics.median(sample[what] for sample in base if what in sample)
    level, work = of(metric), of("tick_work_us_p50")
    one |= {
        "metric": metric,
        "tick_hz": round(of("tick_hz"), 3),
        "level_us": round(level, 1),
        "work_us": round(work, 1),
        "true_ratio": 1 + int(percent) / 100 * min(1, work / level),
        "server_cpu_ratio": cpu and cpu["a"] and round(cpu["b"] / cpu["a"], 3),
        "pairs": found["pairs"],
        "verdict": found["verdict"],
        "ratio": effect and effect.get("ratio"),
        "low": effect and effect.get("low"),
        "high": effect and effect.get("high"),
        "detectable": effect and effect.get("smallest_visible_ratio"),
        "busy": round(statistics.median(window["conditions"]["busy_share"] for window in found["windows"]), 2),
        "caveats": [caveat["kind"] for caveat in found["caveats"]],
    }
    return one


def table(files):
    rows = [json.loads(line) for file in files for line in open(file) if line.strip()]
    for one in rows:
        if "verdict" not in one:
            print(f"{one['server']:22} {one['planted']:3} %  no answer, exit code {one['exit']}: {' '.join(one['said'])[:400]}")
            continue
        share = lambda ratio: "?" if ratio is None else f"{(ratio - 1) * 100:+.1f}"
        print(
            f"{one['server']:22} {one['planted']:3} %  true {share(one['true_ratio']):>5}  found {share(one['ratio']):>6} "
            f"[{share(one['low'])}, {share(one['high'])}]  {one['verdict']:10} {one['pairs']:3} pairs  server's CPU {share(one.get('server_cpu_ratio')):>5}  {one['metric']}, {one['tick_hz']} Hz, CPUs {one['busy'] * 100:.0f} % busy"
        )
    print()
    for planted in sorted({one["planted"] for one in rows}):
        of = [one for one in rows if one["planted"] == planted]
        answered = [one for one in of if "verdict" in one]
        holds = sum(one["low"] <= one["true_ratio"] <= one["high"] for one in answered)
        worse = sum(one["verdict"] == "worse" for one in answered)
        better = sum(one["verdict"] == "better" for one in answered)
        few = sum(one["pairs"] < 5 for one in answered)
        print(
            f"{planted} % planted: {len(of)} trials, {len(of) - len(answered)} without an answer; worse {worse}, better {better}; "
            f"the interval holds the truth in {holds} of {len(answered)}; fewer than five pairs in {few}"
        )


if sys.argv[1] == "--row":
    print(json.dumps(row(*sys.argv[2:])))
else:
    table(sys.argv[1:])
