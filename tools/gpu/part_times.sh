# shellcheck shell=bash disable=SC2034,SC2054,SC2154 # `run` and these files share variables; models have commas
# The parts of tools/gpu/run that take times: speed, next to what others reach on the same card in turn, and parts, kernel by kernel.
# part_list.sh has the others, and what they share.

python=$(command -v python3 || :)
torch='' # whether that has PyTorch: asked once
speeds=$work/speeds # KIND WHO TOKENS_A_SECOND, a line a round

keep_speed() # keep_speed TOKENS_A_SECOND
{
    [ -n "$1" ] || return 1
    echo "$kind $who $1" >>"$speeds"
    printf ',"tokens_s":%s' "$1"
}

own_speed() # the median after three steps
{
    keep_speed "$(sed -n 's/.*"tok_s":\([0-9.e+]*\).*/\1/p' "$work/speed-$kind/metrics.jsonl" | tail -n +4 | sort -g |
        awk '{ of[NR] = $1 } END { if (NR) printf "%.0f", of[int((NR + 1) / 2)] }')"
}
python_speed() { keep_speed "$(sed -n 's/.*"tokens_s": *\([0-9.]*\).*/\1/p' "$1" | tail -1)"; }
llmc_speed() { keep_speed "$(sed -n 's/.*| *\([0-9.]*\) tok\/s.*/\1/p' "$1" | tail -1)"; }

has_torch()
{
    [ -n "$torch" ] || { [ -n "$python" ] && timeout 60 "$python" -c 'import torch' 2>/dev/null && torch=yes; } || torch=no
    [ $torch = yes ]
}

# PyTorch brings its own libraries, and so gets no path of ours.
peer_speeds() # peer_speeds KIND ROUND
{
    local after=python_speed who=torch.compile limit=60 options=() program
    [ "$2" -gt 1 ] || limit=110 # compiles
    [ "$small" = no ] || options+=(--small)
    if ! has_torch; then skip speed "$1:torch.compile:$2" "there is no PyTorch"
    else check speed "$1:torch.compile:$2" $limit "$python" "$here/peers.py" "${options[@]}" --steps 20 "$1"; fi
    after=llmc_speed
    [ "$1" = gpt2 ] || return 0
    for who in train_gpt2cu_cudnn train_gpt2cu; do
        program=$(program $who)
        if [ -z "$program" ] || [ -z "$python" ]; then skip speed "gpt2:$who:$2" "there is no $who"; continue; fi
        [ -e "$work/tokens" ] || "$python" "$here/tokens.py" "$work/tokens" 2000000
        check speed "gpt2:$who:$2" 40 env -C "$work" "LD_LIBRARY_PATH=$library_path" "$program" -e d12 -i tokens -j tokens -b 64 -t 1024 -x 23 \
            -v 1000 -s 1000 -h 0
    done
}

medians() # KIND: one answer for each of those that were timed, ours divided by theirs, and how far rounds are apart
{
    sort -k2,2 -k3,3g "$speeds" | awk -v kind="$1" '
        function close_one(   middle) {
            if (!count) return
            middle = of[int((count + 1) / 2)]
            median[who] = middle
            apart[who] = (of[count] - of[1]) / middle
            names[++all] = who
        }
        $1 == kind { if ($2 != who) { close_one(); who = $2; count = 0 } of[++count] = $3 }
        END {
            close_one()
            for (i = 1; i <= all; i++) {
                who = names[i]
                printf ",\"%s\":%.0f,\"%s_spread\":%.3f", who, median[who], who, apart[who]
                if (who != "zero" && median["zero"]) printf ",\"over_%s\":%.3f", who, median["zero"] / median[who]
            }
            if (!median["zero"]) { print "no round of zero has ended"; exit 1 }
        }'
}
tell_medians() { cat "$1"; }

part_speed()
{
    local kind who after i round
    part_begin 330
    : >"$speeds"
    for ((i = 0; i < ${#speed_models[@]}; i++)); do
        kind=${speed_models[i]%%:*}
        for ((round = 1; round <= rounds; round++)); do
            who=zero
            after=own_speed check speed "$kind:zero:$round" 60 "${card[@]}" "$zero" train --new "${speed_models[i]}" "${common[@]}" \
                --backend "$backend" --out "$work/speed-$kind" --micro-batch "${speed_batches[i]}" --steps "$speed_steps" --no-final-checkpoint
            rm -rf "$work/speed-$kind"
            peer_speeds "$kind" "$round"
        done
        after=tell_medians check speed "$kind:medians" 5 medians "$kind"
    done
    if has_torch && [ -z "$emulated" ]; then
        after=raw_answers check speed attention 40 "$python" "$here/peers.py" attention
    else
        skip speed attention "there is no PyTorch, or no card"
    fi
}

# ---- kernel by kernel ----

# by_kernel FILE: what ncu counted (--csv --print-units base), by kernel: launches, microseconds of them all, bytes a second of them
# all as part of the most that the memory gives. Those that lose most against their floor in memory come first.
by_kernel()
{
    awk '
        function fields(text,   n) {
            sub(/^"/, "", text); sub(/"\r?$/, "", text)
            return split(text, field, "\",\"")
        }
        /^"ID",/ { n = fields($0); for (i = 1; i <= n; i++) at[field[i]] = i; next }
        /^"[0-9]+",/ && at["Metric Value"] {
            fields($0)
            name = field[at["Kernel Name"]]; sub(/[(<].*/, "", name); gsub(/[^A-Za-z0-9_:]/, "", name)
            value = field[at["Metric Value"]]; gsub(/,/, "", value)
            metric = field[at["Metric Name"]]
            if (metric ~ /time_duration/) { launches[name]++; us[name] += value / 1e3; last = value / 1e3; lost[name] += last }
            if (metric ~ /pct_of_peak/) { lost[name] -= last * value / 100; busy[name] += last * value }
        }
        END { for (name in us) printf "%s %d %.1f %.1f %.1f\n", name, launches[name], us[name], us[name] ? busy[name] / us[name] : 0, lost[name] }
    ' "$1" | sort -k5,5gr
}

kernel_answers()
{
    by_kernel "$1" >"$work/kernels"
    printf ',"kernels":[%s]' "$(head -20 "$work/kernels" | awk '{ printf "{\"kernel\":\"%s\",\"launches\":%d,\"us\":%s,\"memory_percent\":%s,\"lost_us\":%s}\n", $1, $2, $3, $4, $5 }' | paste -sd,)"
    [ -s "$work/kernels" ]
}

part_parts()
{
    local after ncu name step
    part_begin 150
    skip parts bench "zero bench does not time a card: what ncu counts stands below"
    ncu=${NCU:-}
    [ -n "$ncu$emulated" ] || ncu=$(first_program ncu /usr/local/cuda*/bin /opt/nvidia/nsight-compute/*)
    if [ -z "$ncu" ]; then skip parts kernels "there is no ncu"; return 0; fi
    step=("${card[@]}" "$ncu" --clock-control none)
    local run=("$zero" train --new "${speed_models[0]}" "${common[@]}" --backend "$backend" --out "$work/parts" --micro-batch "${speed_batches[0]}"
        --steps 1 --no-final-checkpoint)
    after=kernel_answers check parts kernels 100 "${step[@]}" --csv --print-units base \
        --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed "${run[@]}" || return 0
    after=says
    for name in $(grep '^zr_' "$work/kernels" | head -3 | cut -d' ' -f1); do
        check parts "ncu:$name" 30 "${step[@]}" -k "$name" -c 1 --section SpeedOfLight --section Occupancy --section LaunchStats "${run[@]}"
    done
}
