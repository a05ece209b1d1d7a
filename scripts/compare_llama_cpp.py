#!/usr/bin/env python3
"""Times minfer beside llama.cpp, in turn, and prints medians and their ratio.

Needs llama-cpp-python in the running interpreter and a built minfer:

    python3 scripts/compare_llama_cpp.py MODEL.gguf -p 512 -n 64 -t 2 -r 7

Both load the model once per process and time the same thing: `pp` is one evaluation of p tokens, `tg` is
n single-token evaluations after an untimed one. Rounds alternate, so that a machine whose speed drifts slows
both.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import time

import llama_cpp as llama


class Peer:
    """llama.cpp through its C API."""

    def __init__(self, model, threads, n_ctx, ubatch):
        self.quiet = llama.llama_log_callback(lambda *_: None)
        llama.llama_log_set(self.quiet, ctypes.c_void_p(0))
        llama.llama_backend_init()
        self.model = llama.llama_model_load_from_file(
            model.encode(), llama.llama_model_default_params()
        )
        params = llama.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = params.n_ubatch = ubatch
        params.n_threads = params.n_threads_batch = threads
        if hasattr(params, "flash_attn_type"):
            params.flash_attn_type = 1
        self.context = llama.llama_init_from_model(self.model, params)
        vocab = llama.llama_model_get_vocab(self.model)
        self.n_vocab = llama.llama_vocab_n_tokens(vocab)

    def token(self, i):
        return (i * 7919 + 100) % self.n_vocab

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def evaluate(self, first, count):
        batch = llama.llama_batch_init(count, 0, 1)
        batch.n_tokens = count
        for i in range(count):
            batch.token[i] = self.token(first + i)
            batch.pos[i] = first + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i == count - 1
        status = llama.llama_decode(self.context, batch)
        llama.llama_synchronize(self.context)
        llama.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")

    def prompt(self, count):
        self.clear()
        start = time.perf_counter()
        self.evaluate(0, count)
        return count / (time.perf_counter() - start)

    def generate(self, count):
        self.clear()
        self.evaluate(0, 1)
        start = time.perf_counter()
        for i in range(count):
            self.evaluate(1 + i, 1)
        return count / (time.perf_counter() - start)


def minfer(args, *test):
    """One sample of `minfer bench`, in tokens per second."""
    command = [args.minfer, "bench", args.model, *map(str, test)]
    command += ["-r", "1", "-t", str(args.threads), "--output", "json"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    (row,) = json.loads(result.stdout)
    return row["samples_ts"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("-p", type=int, default=512, help="prompt tokens")
    parser.add_argument("-n", type=int, default=64, help="generated tokens")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-r", "--rounds", type=int, default=7)
    parser.add_argument("--minfer", default="target/release/minfer")
    args = parser.parse_args()

    peer = Peer(args.model, args.threads, max(args.p, args.n + 1, 512), 512)
    peer.prompt(args.p)
    samples = {"pp": ([], []), "tg": ([], [])}
    for _ in range(args.rounds):
        samples["pp"][0].append(minfer(args, "-p", args.p, "-n", 0))
        samples["pp"][1].append(peer.prompt(args.p))
        samples["tg"][0].append(minfer(args, "-p", 0, "-n", args.n))
        samples["tg"][1].append(peer.generate(args.n))
    print("| test | minfer t/s | llama.cpp t/s | ratio of medians | lowest and highest ratio |")
    print("|---|---|---|---|---|")
    for test, count in (("pp", args.p), ("tg", args.n)):
        ours, theirs = samples[test]
        mine, other = statistics.median(ours), statistics.median(theirs)
        ratios = [a / b for a, b in zip(ours, theirs)]
        print(
            f"| {test}{count} | {mine:.1f} | {other:.1f} | {mine / other:.2f} "
            f"| {min(ratios):.2f} – {max(ratios):.2f} |"
        )


if __name__ == "__main__":
    main()
