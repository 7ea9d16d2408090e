#!/usr/bin/env bash
# Dead ranks, signals, a dead parent, zero run: everything ends in two seconds with one line, or saves, and nothing stays behind.
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0 # a sanitizer would turn the signal into an exit code
now() { date +%s%N; }
parent=
trap '[ -z "$parent" ] || kill -KILL $parent 2>/dev/null; cd /; rm -rf "$WORK"' EXIT
ours_in_shm() { find /dev/shm -maxdepth 1 -iname '*zero*' ! -type d 2>/dev/null; } # directories are other tests' own, which run beside this one
training() { # training STDERR OPTION...: the parent's number in $parent, once step lines come
    rm -rf run
    "$ZERO" train --new $TINY --data "$TEXT" --val none --threads 1 --quiet --micro-batch 1 --steps 10000000 "${@:2}" --out run >out.txt 2>"$1" &
    parent=$!
    for _ in $(seq 600); do [ -s run/metrics.jsonl ] && return; sleep 0.05; done
    fail "no step within 30 s: $(timeout 1 cat "$1")"
}
start() { training err.txt --ranks 3 --stage 3; }
gone() { # the ranks of a parent that could not wait for them die with it
    local left
    for _ in $(seq 40); do
        left=$(for pid in $children; do kill -0 "$pid" 2>/dev/null && echo "$pid"; done)
        [ -n "$left" ] || return 0
        sleep 0.05
    done
    fail "ranks outlive their parent: $left"
}
ended() { # ended CODE: the parent ended with it in two seconds of $begin, and so did its ranks
    local got=0
    for _ in $(seq 400); do kill -0 $parent 2>/dev/null || break; sleep 0.05; done
    kill -KILL $parent 2>/dev/null # where it still runs: 137 is told below
    wait $parent || got=$?
    local ms=$((($(now) - begin) / 1000000))
    [ $got -eq "$1" ] || fail "exit code $got, not $1: $(cat err.txt)"
    [ $ms -lt 3000 ] || [ "$1" -eq 75 ] || fail "ended after $ms ms" # a save takes what the disk takes
    for pid in $children; do kill -0 "$pid" 2>/dev/null && fail "rank process $pid is left"; done
    [ -z "$(ours_in_shm)" ] || fail "left in /dev/shm"
}

for signal in KILL SEGV; do
    start
    children=$(children_of $parent)
    begin=$(now)
    kill -$signal "$(echo "$children" | tail -1)"
    ended $((128 + $(kill -l $signal)))
    [ "$(wc -l <err.txt)" -eq 1 ] && grep -qE "rank 2 was killed by signal $(kill -l $signal) .* step [0-9]+" err.txt || fail "message: $(cat err.txt)"
done
# Asked to end, at the parent or at any rank: all save, and say how to go on; the parent says at once what it will do. Asked twice, all end
# now.
for signal in TERM INT USR1; do
    start
    said=1
    [ $signal != USR1 ] || said=0
    children=$(children_of $parent)
    begin=$(now)
    if [ $signal = USR1 ]; then kill -$signal "$(echo "$children" | tail -1)"; else kill -$signal $parent; fi
    ended 75
    [ "$(grep -c 'ending after this step, then saving' err.txt)" -eq $said ] || fail "not acknowledged: $(cat err.txt)"
    [ "$(wc -l <err.txt)" -eq $((2 + said)) ] && grep -qE 'ended as asked after step [0-9]+ of 10000000; saved in "run/checkpoints/step-' err.txt || fail "message: $(cat err.txt)"
    grep -q '^go on with: zero train .* --out run --resume$' err.txt || fail "message: $(cat err.txt)"
    [ -f "run/checkpoints/$(cut -d' ' -f1 run/checkpoints/latest)/manifest.json" ] || fail "nothing is saved after $signal"
    [ -z "$(ls -A run/checkpoints | grep -v -e '^step-' -e '^latest$')" ] || fail "left over: $(ls -A run/checkpoints)"
done
start
children=$(children_of $parent)
begin=$(now)
kill -TERM $parent; kill -INT $parent
got=0
wait $parent || got=$?
[ $got -eq 143 ] || [ $got -eq 130 ] || fail "asked twice: $got, $(cat err.txt)"
grep -q '^stopped at once, without saving' err.txt || fail "asked twice, and not told: $(cat err.txt)"
gone
# The second signal comes while the first one's line waits for a full pipe: it still is the second.
mkfifo said && exec 9<>said
timeout 0.5 cat /dev/zero >&9
training said
for signal in TERM INT; do kill -$signal $parent; sleep 0.3; done
timeout 3 cat <&9 | tr -d '\0' >err.txt
exec 9>&-
kill -KILL $parent 2>/dev/null # where it still runs
wait $parent
[ "$(grep -c '^stopped at once' err.txt)" -eq 1 ] && [ "$(grep -c 'ending after this step' err.txt)" -le 1 ] || fail "the second of two signals at once: $(cat err.txt)"
start
children=$(children_of $parent)
kill -KILL $parent
{ wait $parent; } 2>/dev/null
gone

# A stopped rank ends the run within the deadline.
training err.txt --ranks 2 --stage 3 --timeout 1
children=$(children_of $parent)
begin=$(now)
kill -STOP "$(echo "$children" | tail -1)"
got=0
for _ in $(seq 400); do kill -0 $parent 2>/dev/null || break; sleep 0.05; done
kill -KILL $parent 2>/dev/null
wait $parent || got=$?
[ $got -eq 74 ] && [ $((($(now) - begin) / 1000000)) -lt 6000 ] && grep -q 'rank 1' err.txt || fail "a stopped rank: $got, $(cat err.txt)"
for pid in $children; do kill -0 "$pid" 2>/dev/null && fail "rank process $pid is left"; done

# One at a time in a directory.
start
children=$(children_of $parent)
got=0
timeout 60 "$ZERO" train --new $TINY --data "$TEXT" --val none --threads 1 --quiet --steps 1 --out run --overwrite 2>second.txt || got=$?
[ $got -eq 64 ] && grep -q 'another run' second.txt || fail "a second run: $got, $(cat second.txt)"
begin=$(now)
kill -TERM $parent
ended 75

# ps and pkill know it by its name, though it starts itself once more.
expect 0 env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT "$ZERO" run --ranks 1 sh -c 'cat /proc/$PPID/comm'
[ "$(cat out.txt)" = "$(basename "$ZERO")" ] || fail "its name is $(cat out.txt)"

# zero run: a program of one's own.
expect 0 "$ZERO" run --ranks 3 sh -c 'echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE'
[ "$(sort out.txt | tr '\n' ';')" = "0 of 3, 0 of 3;1 of 3, 1 of 3;2 of 3, 2 of 3;" ] || fail "variables: $(cat out.txt)"
expect 7 "$ZERO" run --ranks 3 sh -c '[ $RANK -eq 1 ] && exit 7; exec sleep 30'
grep -q 'rank 1 ended with exit code 7' err.txt || fail "$(cat err.txt)"
expect 74 "$ZERO" run --ranks 1 "$ZERO" eval --model nowhere --data "$TEXT" # a rank that is alone says itself what is wrong
grep -q '^zero eval: there is no directory "nowhere"' err.txt || fail "a rank alone: $(cat err.txt)"
expect 137 "$ZERO" run --ranks 2 sh -c '[ $RANK -eq 1 ] && kill -KILL $$; trap "" TERM; sleep 30; sleep 30'
"$ZERO" run --ranks 2 sh -c 'n=0; trap "n=\$((n + 1))" USR1; trap "echo \$n notes; exit 3" TERM; echo ready; while :; do sleep 0.05; done' >out.txt 2>err.txt &
parent=$!
for _ in $(seq 400); do [ "$(grep -c ready out.txt)" -eq 2 ] && break; sleep 0.05; done
for _ in 1 2; do kill -USR1 $parent; sleep 0.3; done
kill -TERM $parent
got=0
wait $parent || got=$?
parent=
[ $got -eq 3 ] && [ "$(grep -c '^2 notes$' out.txt)" -eq 2 ] || fail "signals of a program of one's own: $got, $(cat out.txt err.txt)"
begin=$(now)
expect 143 timeout --preserve-status -s TERM 1 "$ZERO" run --grace 0.5 --ranks 2 sh -c 'trap "" TERM; while :; do sleep 0.1; done'
[ $((($(now) - begin) / 1000000)) -lt 5000 ] || fail "deaf ranks lived on after their grace"
# A rank that the kernel ends at the limit of its control group: the message says so, with limit and plan. Needs a group of its own.
# Under a sanitizer the parent is large, too: the rank offers itself.
own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
group=/sys/fs/cgroup/memory$own/zero-test.$$ limit=memory.limit_in_bytes
[ -n "$own" ] || { group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/zero-test.$$ limit=memory.max; }
# shellcheck disable=SC2016 # the ranks' shell expands it
if mkdir "$group" 2>/dev/null && echo 96M >"$group/$limit" && [ -e "$group/memory.stat" ] 2>/dev/null; then
    memory=0
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" timeout 100 "$ZERO" run --ranks 2 \
        sh -c '[ $RANK -eq 1 ] || exec sleep 60; echo 1000 >/proc/self/oom_score_adj; exec python3 -c "bytearray(200 << 20)"' >out.txt 2>err.txt || memory=$?
    rmdir "$group"
    [ "$memory" -eq 137 ] && [ "$(wc -l <err.txt)" -eq 1 ] || fail "exit code $memory, not 137, at a limit of memory: $(cat err.txt)"
    grep -q 'rank 1 was killed by signal 9 .*: the kernel ended it for memory: the limit of its control group is 101 MB for all processes together; ' err.txt || fail "a limit of memory: $(cat err.txt)"
else
    rmdir "$group" 2>/dev/null
    echo "no control group of its own here: the limit of memory is not tried"
fi
echo "dead ranks are told, and none is left"
