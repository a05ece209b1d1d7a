#!/usr/bin/env python3
"""Times an answer that repeats its prompt with and without drafts, in turn.

Needs a built minfer:

    python3 scripts/measure_drafting.py MODEL -r 3

Both runs choose greedily; their texts must be equal. Prints medians of the decoding speed and their ratio.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys

PROMPT = pathlib.Path(__file__).with_name("drafting_prompt.txt")


def answer(arguments, *flags):
    command = [arguments.minfer, "run", arguments.model, "--greedy", "-n", str(arguments.tokens)]
    if arguments.threads:
        command += ["-t", str(arguments.threads)]
    run = subprocess.run(command + list(flags), input=arguments.prompt.read_text(), capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    summary = run.stderr
    rate = re.search(r"decode (\d+) tokens, ([\d.]+) t/s", summary)
    drafts = re.search(r"drafted (\d+), accepted (\d+)", summary)
    return run.stdout, int(rate[1]), float(rate[2]), tuple(map(int, drafts.groups())) if drafts else (0, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--minfer", default="target/release/minfer")
    parser.add_argument("--prompt", type=pathlib.Path, default=PROMPT)
    parser.add_argument("-n", "--tokens", type=int, default=1000)
    parser.add_argument("-t", "--threads", type=int)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--draft-max", type=int, default=8)
    arguments = parser.parse_args()

    plain, drafted = [], []
    for round in range(arguments.rounds):
        text, tokens, rate, _ = answer(arguments)
        plain.append(rate)
        same, _, rate, drafts = answer(arguments, "--draft", "ngram", "--draft-max", str(arguments.draft_max))
        drafted.append(rate)
        if same != text:
            sys.exit("the texts differ")
        print(f"round {round + 1}: {plain[-1]:.1f} and {drafted[-1]:.1f} t/s")
    ratios = [with_drafts / without for with_drafts, without in zip(drafted, plain)]
    print(f"{tokens} tokens; drafted {drafts[0]}, accepted {drafts[1]}")
    print(
        f"median {statistics.median(plain):.1f} t/s without and {statistics.median(drafted):.1f} t/s with drafts, "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
