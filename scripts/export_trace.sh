#!/usr/bin/env bash
# Durations per kernel from a recording of Instruments:
#
#   xcrun xctrace record --template 'Metal System Trace' --output step.trace --launch -- minfer run MODEL ...
#   scripts/export_trace.sh step.trace [RUN]
#
# Durations of kernels are there if the recording's Metal options had "Shader Timeline" on; those of encoders always.
# TRACE_PROCESS=minfer leaves out what other processes did.
#
# Written from the documented format of `xctrace export` and tested with a made-up recording
# (crates/metal/tests/trace_export.rs): it has not run on a Mac yet.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 RECORDING.trace [RUN]" >&2
    exit 2
fi
trace=$1
run=${2:-1}
scripts=$(cd "$(dirname "$0")" && pwd)
if ! command -v xcrun >/dev/null; then
    echo "export_trace: xcrun is missing: recordings are exported on a Mac with Xcode" >&2
    exit 1
fi

contents=$(xcrun xctrace export --input "$trace" --toc)
found=
for table in metal-shader-profiler-intervals metal-gpu-intervals; do
    if ! grep -q "schema=\"$table\"" <<<"$contents"; then
        continue
    fi
    found=1
    printf '%s\n' "$table"
    xpath="/trace-toc/run[@number=\"$run\"]/data/table[@schema=\"$table\"]"
    xcrun xctrace export --input "$trace" --xpath "$xpath" |
        python3 "$scripts/trace_durations.py" ${TRACE_PROCESS:+--process "$TRACE_PROCESS"}
done
if [ -z "$found" ]; then
    echo "export_trace: $trace has no table of Metal's intervals: was it recorded with 'Metal System Trace'?" >&2
    exit 1
fi
