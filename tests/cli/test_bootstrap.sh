#!/usr/bin/env bash
# What ./bootstrap says where something is wrong: a build that fails, a checkout that cannot be written to, an MPICH without its
# headers; and what its demo does. Meson, ninja, apt-get and mpirun are stand-ins; the script is the tree's, in a folder of its own.
. "$(dirname "$0")/lib.sh"
mkdir -p tree fake
cp "$HERE/../../bootstrap" tree/
export PATH=$WORK/fake:$PATH
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"fake/$1"; chmod +x "fake/$1"; }
stand_in apt-get 'exit 1'
stand_in meson 'case $1 in --version) echo 1.9.9 ;; setup) mkdir -p build && touch build/build.ninja ;; esac'
stand_in ninja 'case "$*" in *-t*) exit 0 ;; esac
for i in $(seq 500); do echo "[$i/1000] cc one.c"; echo "one.c: warning: nothing much"; done
echo "FAILED: two.o"; echo "cc -o two.o $(seq -s " -I" 2000)"; echo "two.c:7:1: error: this is the cause"
for i in $(seq 501 999); do echo "[$i/1000] cc three.c"; done
echo "FAILED: four.o"; echo "ninja: build stopped: subcommand failed."; exit 1'

expect 1 tree/bootstrap tests # test, too
! grep -q 'building: ' out.txt || fail "a fast build is told of: $(cat out.txt)"
grep -q 'This first build takes about [0-9]* s on the [0-9]* cores here' out.txt || fail "how long a first build takes: $(cat out.txt)"
rm -rf tree/build
BOOTSTRAP_TELL=0 expect 1 tree/bootstrap build # a line for each of ninja's, as if each had taken 20 seconds
grep -q '^building: 500 of 1000, [0-9]* s so far$' out.txt || fail "a long build is silent: $(head -c 2000 out.txt)"
grep -q 'this is the cause' err.txt || fail "the first error is not shown: $(head -c 2000 err.txt)"
[ "$(wc -lc <err.txt | awk '$1 <= 6 && $2 < 1000')" ] || fail "a failing build prints $(wc -l <err.txt) lines, $(wc -c <err.txt) bytes"
log=$(sed -n 's/.*all that it said: \(.*\))$/\1/p' err.txt)
[ "$(grep -c . "$log")" -gt 1500 ] && grep -q 'FAILED: four' "$log" || fail "no log of all that ninja said: $(cat err.txt)"

# For root nothing but the file system refuses to write.
rm -rf tree/build
cat >read-only.sh <<'SH'
if [ "$(id -u)" -eq 0 ]; then mount --bind tree tree && mount -o remount,ro,bind tree || exit 77; else chmod a-w tree; fi
exec tree/bootstrap build
SH
got=0
if [ "$(id -u)" -eq 0 ]; then unshare --mount bash read-only.sh >out.txt 2>err.txt || got=$?; else bash read-only.sh >out.txt 2>err.txt || got=$?; fi
chmod u+w tree
if [ "$(id -u)" -eq 0 ] && ! grep -q bootstrap err.txt; then
    echo "nothing can be mounted here ($(head -1 err.txt)): a read-only checkout was not tried" >&2
else
    [ $got -eq 1 ] && [ "$(wc -l <err.txt)" -eq 1 ] && grep -q 'cannot be written to' err.txt || fail "a read-only checkout: exit code $got, $(cat out.txt err.txt)"
fi

# The demo: a stand-in's build is the program, but for the numbers of steps, and that each takes 40 ms.
cat >program <<END
#!/usr/bin/env bash
args=() before=
END
cat >>program <<'END'
echo "$*" >>"$WORK/calls"
for arg in "$@"; do
    case $before in --steps) arg=8 ;; --tokens) arg=4 ;; esac
    args+=("$arg") before=$arg
done
"$PROGRAM" "${args[@]}" || exit
! [ "$1" = train ] || sed -i 's/"ms":[0-9.]*/"ms":40.0/' build/demo/*/metrics.jsonl
END
chmod +x program
stand_in ninja 'cp ../program build/zero'
mkdir -p tree/examples && cp -r "$HERE/../../examples/text" tree/examples/
rm -rf tree/build
export WORK PROGRAM=$ZERO
SECONDS=500 expect 0 tree/bootstrap demo # as if installing and building had taken so long
grep -q -- '--steps 3000 --out build/demo/run ' calls || fail "120 s of steps that take 40 ms: $(cat calls)"
grep -q -- '--dtype auto' calls || fail "not in the precision that the processor does best: $(cat calls)"
awk '/^  loss / { rows = 1; next } rows && /\|/ { rows++; if (/\*/) drawn++ } /\+---/ { line = length($0) } / step 8$/ { last = 1 }
     END { exit !(rows == 13 && drawn >= 3 && line == 68 && last) }' out.txt || fail "the loss is not drawn in 12 rows and 60 columns: $(cat out.txt)"
[ "$(grep -c '^And the king said\|^In those days\|^Then Jesus' out.txt)" -eq 3 ] || fail "not three samples: $(cat out.txt)"
printf 'caf\351 %s\n' $(seq 300) >latin.txt # not UTF-8
expect 0 tree/bootstrap demo latin.txt
grep -q 'tokenizer bytes' calls && grep -q 'Text: .*/latin.txt, ' out.txt || fail "a file of the user's: $(cat calls out.txt)"

# MPICH's mpirun: its own headers are asked for where they are missing, and Open MPI never.
stand_in mpirun 'echo "HYDRA build details:"'
real=$(PATH=${PATH#*:} command -v pkg-config)
stand_in pkg-config "[ \"\$2\" != mpich ] || exit 1; exec $real \"\$@\""
stand_in apt-cache 'echo "  Candidate: (none)"' # no lists: they come first
tree/bootstrap deps >out.txt 2>err.txt
grep -q 'To install: apt-get update && apt-get install .* libmpich-dev mpich' out.txt && ! grep -q openmpi out.txt || fail "MPICH without headers: $(cat out.txt err.txt)"
stand_in apt-cache 'echo "  Candidate: 1"'
tree/bootstrap deps >out.txt 2>err.txt
grep -q 'To install: apt-get install .* libmpich-dev mpich' out.txt || fail "with lists: $(cat out.txt err.txt)"
stand_in pkg-config "[ \"\$2\" != mpich ] || exit 0; exec $real \"\$@\""
tree/bootstrap deps >out.txt 2>err.txt
! grep -q 'MPI' out.txt || fail "MPICH with its headers is not enough: $(cat out.txt err.txt)"
echo "failures are short and say where to look; the demo trains two minutes and draws its loss; MPICH is told from Open MPI"
