#!/usr/bin/env bash
# Where NVIDIA's libraries are looked for, which versions are taken, and what is said of those that are missing, damaged or too old.
# $FACTS is library_facts, $EMULATED the folder of the emulated libraries.
set -u
: "${FACTS:?the program library_facts}" "${EMULATED:?the folder of the emulated libcuda.so.1}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d) && cd "$work" || exit 99
trap 'cd /; rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }

unset CUDA_HOME VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH LOOK_IN
export LOADER=$work/loader ROOT=$work/root

empty() # a machine without anything; python3 knows nothing
{
    rm -rf loader root place bin
    mkdir -p loader root place bin
    python "exit 1"
}
python() { printf '#!/bin/sh\n%s\n' "$1" >bin/python3; chmod +x bin/python3; }
looks() { PATH=$work/bin:$PATH timeout 60 "$FACTS" >facts || fail "exit code $?"; }
of() { grep "^$1|" facts | cut -d '|' -f "$2"; }
found() # found LIBRARY VERSION FOLDER
{
    looks
    [ "$(of "$1" 2)" = yes ] && [ "$(of "$1" 3)" = "$2" ] || fail "$1 is not found, or of another version than $2: $(cat facts)"
    case $(of "$1" 4) in "$3"/*) ;; *) fail "$1 is not of $3: $(cat facts)" ;; esac
}
missing() # missing LIBRARY WORDS...
{
    looks
    [ "$(of "$1" 2)" = no ] || fail "$1 is found: $(cat facts)"
    local name=$1 words
    shift
    for words; do
        case $(of "$name" 5) in *"$words"*) ;; *) fail "$name: nothing says '$words': $(cat facts)" ;; esac
    done
}
driver() { cp "$EMULATED/${1:-.}/libcuda.so.1" loader/; }
cuda13() { mkdir -p "$1" && cp "$EMULATED/libcublasLt.so.13" "$EMULATED/libnvrtc.so.13" "$1/"; }
cuda12() { mkdir -p "$1" && cp "$EMULATED/cuda12/libcublasLt.so.12" "$1/" && cp "$EMULATED/libnvrtc.so.13" "$1/libnvrtc.so.12"; }

empty
missing libcuda "there is no driver" 525.60
missing libcublasLt libcublasLt.so.13 "pip install nvidia-cublas nvidia-cuda-nvrtc"
missing libnvrtc libnvrtc.so.13 "pip install nvidia-cublas nvidia-cuda-nvrtc"

# Each place, alone.
empty && driver && cuda13 loader
found libcuda 13000 "$work/loader"
found libcublasLt 130100 "$work/loader"
found libnvrtc 13990 "$work/loader"
for folder in lib64 lib; do
    empty && driver && cuda13 place/$folder
    CUDA_HOME=$work/place found libcublasLt 130100 "$work/place/$folder"
    empty && driver && cuda13 root/usr/local/cuda-13.0/$folder
    found libnvrtc 13990 "$work/root/usr/local/cuda-13.0/$folder"
done
packages=place/lib/python3.11/site-packages/nvidia/cu13/lib
empty && driver && cuda13 $packages
missing libcublasLt "not found"
VIRTUAL_ENV=$work/place found libcublasLt 130100 "$work/$packages"
CONDA_PREFIX=$work/place found libnvrtc 13990 "$work/$packages"
empty && driver && cuda13 place/lib
CONDA_PREFIX=$work/place found libnvrtc 13990 "$work/place/lib"
LOOK_IN=/nowhere:$work/place/lib found libcublasLt 130100 "$work/place/lib"
python "echo $work/place/lib"
found libcublasLt 130100 "$work/place/lib"
python "echo $work/place/lib; exec sleep 100" # an answer that does not end counts as far as it goes
found libcublasLt 130100 "$work/place/lib"

# Versions: the driver's own first; a later one than the driver's is refused, with what is right.
empty && driver cuda12 && cuda13 place/lib && cuda12 place/lib64
CUDA_HOME=$work/place found libcublasLt 130100 "$work/place/lib64" # the emulated one has one version
case $(of libcublasLt 4) in *.so.12) ;; *) fail "a driver of 12 takes $(of libcublasLt 4)" ;; esac
rm -r place/lib64
CUDA_HOME=$work/place missing libcublasLt "of CUDA 13" "of CUDA 12.4" "pip install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12" 580
rm -r place/lib
missing libnvrtc libnvrtc.so.12 "pip install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12"
empty && driver && cuda12 place/lib
CUDA_HOME=$work/place found libnvrtc 13990 "$work/place/lib"
cuda13 place/lib
CUDA_HOME=$work/place found libnvrtc 13990 "$work/place/lib"
case $(of libnvrtc 4) in *.so.13) ;; *) fail "a driver of 13 takes $(of libnvrtc 4)" ;; esac

# Drivers that are too old, a damaged library, and one that is another.
empty
${CC:-cc} -shared -fPIC -I "$here/../../src/cuda" -o loader/libcuda.so.1 "$here/old_driver.c" || fail "old_driver.c does not compile"
missing libcuda "of CUDA 11.8" "too old" 525.60
echo "int nothing;" >nothing.c
${CC:-cc} -shared -fPIC -o loader/libcuda.so.1 nothing.c
missing libcuda "too old" "has no cuInit"
empty && driver && mkdir place/lib && echo "no library" >place/lib/libcublasLt.so.13
CUDA_HOME=$work/place missing libcublasLt "cannot be loaded" "$work/place/lib/libcublasLt.so.13" "pip install nvidia-cublas"
${CC:-cc} -shared -fPIC -o place/lib/libcublasLt.so.13 nothing.c
CUDA_HOME=$work/place missing libcublasLt "has no cublasLtGetVersion" "pip install nvidia-cublas"
