# Two machines in one, for tests that are about a network: each a network and a UTS namespace of its own, a veth called wire between them.
# Sourced after lib.sh; skips the test where that cannot be done. $a, $b: their processes; `on PROCESS COMMAND...` runs there, and
# "${ACROSS[@]}" is mpirun on the first, which reaches both by --host 10.77.0.1:N,10.77.0.2:N.
skip() { echo "SKIPPED: two machines are not simulated: $*"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "there is no Open MPI"
"$ZERO" doctor | grep -q "^MPI *module found" || skip "this build has no module for MPI"
[ "$(id -u)" -eq 0 ] || skip "namespaces need root"
command -v ip >/dev/null || skip "there is no ip(8)"
command -v nsenter >/dev/null || skip "there is no nsenter(1)"

# A machine is what a process that does nothing holds open.
machine() { unshare --net --uts sh -c 'hostname "host-$1"; ip link set lo up && echo >"ready-$1"; exec sleep 600' sh "$1" 2>>err.txt & }
on() { nsenter --target "$1" --net --uts "${@:2}"; }
machine a; a=$!
machine b; b=$!
trap 'kill $a $b 2>/dev/null; cd /; rm -rf "$WORK"' EXIT
for ((i = 0; i < 100; i++)); do [ -e ready-a ] && [ -e ready-b ] && break; sleep 0.1; done
[ -e ready-a ] && [ -e ready-b ] || skip "no namespaces can be made here: $(cat err.txt)"
on $a ip link add wire type veth peer name wire netns $b 2>err.txt || skip "$(cat err.txt)"
for side in $a:1 $b:2; do
    on ${side%:*} ip address add 10.77.0.${side#*:}/24 dev wire
    on ${side%:*} ip link set wire up
done
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end

# How mpirun reaches a machine: HOST COMMAND... . Its words go through a shell, as ssh's do.
cat >agent <<AGENT
#!/bin/sh
case \$1 in 10.77.0.1) machine=$a ;; *) machine=$b ;; esac
shift
exec nsenter --target \$machine --net --uts sh -c "\$*"
AGENT
chmod +x agent
ACROSS=(nsenter --target $a --net --uts mpirun --allow-run-as-root --oversubscribe --mca plm_rsh_agent "$WORK/agent"
    --mca btl self,vader,tcp --mca btl_tcp_if_include wire --mca oob_tcp_if_include wire)
