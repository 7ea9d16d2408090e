#!/usr/bin/env bash
# zero doctor names the libraries that NVIDIA's cards take, where each was found, and the cards; or what is missing. $EMULATED is the
# folder of the emulated libraries.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../cli/lib.sh"
: "${EMULATED:?the folder of the emulated libraries}"
export XDG_CACHE_HOME=$WORK/cache LD_LIBRARY_PATH=$EMULATED EMULATED_LEAKS=1

says() { grep -qE "$1" out.txt || fail "doctor does not say '$1': $(grep -E -A5 '^NVIDIA' out.txt)"; }
silent() { ! grep -qE "$1" out.txt || fail "doctor says '$1': $(grep -E "$1" out.txt)"; }

expect 0 "$ZERO" doctor
says "^NVIDIA +driver of CUDA 13\.0, \"$EMULATED/libcuda.so.1\""
says "^  cuBLASLt +13\.1\.0, \"$EMULATED/libcublasLt.so.13\""
says "^  NVRTC +13\.99, \"$EMULATED/libnvrtc.so.13\""
says "^  cuda:0 +emulated, compute capability 9\.0, 2 multiprocessors, 1\.1 of 1\.1 GB unused"
silent "^missing .*NVIDIA"
[ -n "$(find cache/libzero -name 'kernels-*.cubin')" ] || fail "no image of a kernel was kept"

expect 0 "$ZERO" doctor --json
python3 - "$EMULATED" <<'P' || fail "doctor --json: $(cat out.txt)"
import json, sys
found = json.load(open("out.txt"))["nvidia"]
assert found["driver"] == {"version": "13.0", "path": sys.argv[1] + "/libcuda.so.1"}, found
assert found["cublaslt"]["version"] == "13.1.0" and found["nvrtc"]["version"] == "13.99", found
card = found["cards"][0]
assert len(found["cards"]) == 1 and card["backend"] == "cuda:0" and card["name"] == "emulated", card
assert card["capability"] == 9.0 and card["multiprocessors"] == 2 and 0 < card["unused_bytes"] <= card["bytes"] == 1 << 30, card
P

# A cache that cannot be written is told of.
XDG_CACHE_HOME=/dev/null expect 0 "$ZERO" doctor
says "^  cuda:0 .*unused; kernels are compiled anew each time: .*/dev/null"

# A card that is too old, a driver without a card, and one that is too old.
EMULATED_CAPABILITY=75 expect 0 "$ZERO" doctor
says "^  cuda:0 +cuda:0 \(emulated\) has compute capability 7\.5"
EMULATED_DEVICES=0 expect 0 "$ZERO" doctor
says "^NVIDIA +driver of CUDA 13\.0"
silent "^  cuda:"
mkdir old
${CC:-cc} -shared -fPIC -I "$here/../../src/cuda" -o old/libcuda.so.1 "$here/old_driver.c" || fail "old_driver.c does not compile"
LD_LIBRARY_PATH=$WORK/old expect 0 "$ZERO" doctor
says "^NVIDIA +the driver of NVIDIA \(\"$WORK/old/libcuda.so.1\"\) is of CUDA 11\.8, which is too old: .*525\.60"
silent "^  cuda:"
