#!/usr/bin/env bash
# tools/score-runs with the built program: the meaning of cells, remarks on defaults, files that are no tables, and the score.
set -eu
command -v python3 >/dev/null || { echo "SKIPPED: there is no python3 on this machine"; exit 77; }
exec python3 -B "$(dirname "$0")/score_runs_cases.py"
