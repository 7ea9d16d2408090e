#!/usr/bin/env bash
# What shells complete: the scripts of zero --completion, of which bash's is driven word by word as readline drives it, and those of
# zsh and fish in these shells, where they are installed.
. "$(dirname "$0")/lib.sh"
export HOME=$WORK
mkdir -p sub/folder
touch model.json 'two words.txt'

for shell in bash zsh fish; do
    expect 0 "$ZERO" --completion $shell
    mv out.txt script.$shell
    # An option that the table has and the script lacks, or the other way round.
    for command in train simulate bench doctor; do
        grep -oP "^$command\t\K--[a-z-]+" script.$shell | sort >completed.txt
        "$ZERO" $command --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | sort >options.txt
        cmp -s options.txt completed.txt || fail "$shell completes other options of $command: $(command diff options.txt completed.txt)"
    done
    ! grep -P '^[a-z-]+\t.*\\' script.$shell | grep -v "'\\\\''" || fail "a backslash in the table of $shell"
done
refused 64 "bash, zsh or fish" "$ZERO" --completion
refused 64 "bash, zsh or fish" "$ZERO" --completion tcsh

# ---- bash

bash -n script.bash || fail "the script of bash is none"
# shellcheck disable=SC1091 # it is made here
. ./script.bash
[ "$(complete -p zero)" = "complete -F _zero zero" ] || fail "bash is told: $(complete -p zero)"

# completes "WORDS" WORD...: after these words, which are divided as bash divides them, the last one being completed (- : empty), the
# function proposes exactly the others.
completes()
{
    local words=$1
    shift
    # shellcheck disable=SC2034,SC2206 # for the function; words
    COMP_WORDS=($words)
    [ "${COMP_WORDS[-1]}" != - ] || COMP_WORDS[-1]=''
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=(left over)
    _zero zero "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}" 2>err.txt
    [ ! -s err.txt ] || fail "completing \"$words\": $(cat err.txt)"
    [ "$(printf '%s\n' "${COMPREPLY[@]}" | sort)" = "$(printf '%s\n' "$@" | sort)" ] ||
        fail "completing \"$words\" proposes: ${COMPREPLY[*]}; not: $*"
}

commands=$("$ZERO" --help | sed -n 's/^  zero \([a-z]*\)  *[a-z].*/\1/p')
# shellcheck disable=SC2086 # words
completes "zero -" $commands
completes "zero tr" train
completes "zero to" tokenize tokenizer
completes "zero --" --help --version --man --completion --describe-configuration
completes "zero trains"
completes "zero help tun" tune
completes "zero --completion -" bash zsh fish
completes "zero train --sta" --stage
completes "zero train --save" --save-every --save-seconds
completes "zero train --quiet --stri" --strict
completes "zero train --steps 3 --stri" --strict
completes "zero train --data a.txt b.txt --stri" --strict
completes "zero train --trials" # which is an option of tune
completes "zero train --steps -" # nobody knows
completes "zero train --dtype -" fp32 bf16 fp16 auto
completes "zero train --dtype b" bf16
completes "zero simulate --dtype -" fp32 bf16 fp16 # not auto
completes "zero train --dtype =" fp32 bf16 fp16 auto
completes "zero train --dtype = b" bf16
completes "zero train --stage -" 0 1 2 3
completes "zero train --backend -" auto cpu cpu:portable cpu:avx2 cpu:avx512 cpu:avx512_bf16 cpu:amx ref cuda cuda:1
completes "zero train --backend cpu : p" portable
completes "zero train --schedule inter" interleaved:2
completes "zero simulate --order tensor,da" tensor,data
completes "zero simulate --order -" tensor context data pipeline best
completes "zero train --config mod" model.json
completes "zero train --config = mod" model.json
completes "zero train --val no" none
completes "zero train --val mod" model.json
completes "zero train --model -" sub # which is the only folder
completes "zero train --data model.json tw" "two words.txt"
completes "zero inspect --verify mod" model.json
completes "zero inspect model.json tw" "two words.txt"
completes "zero verify su" sub
completes "zero data -" show
completes "zero data s" show
completes "zero bench st" step
completes "zero bench -" comm gemm optimizer blocks step checkpoint memory io
completes "zero bench step --pat" --path
completes "zero bench --path sub st" step
completes "zero run --ran" --ranks
completes "zero run --ranks 2 model.j" model.json
completes "zero run --ranks 2 ./program mod" model.json
completes "zero run --ranks 2 ./program --ran" # the program's own
completes "zero nonsense -"

# ---- zsh and fish

if command -v zsh >/dev/null; then
    zsh -n script.zsh || fail "the script of zsh is none"
    mkdir functions && cp script.zsh functions/_zero
    # listed LINE WORD...: that zsh lists these words, and perhaps others.
    listed() { timeout 60 zsh -f "$HERE/complete.zsh" functions "$@" >shown.txt || fail "zsh, completing \"$1\": $(cat shown.txt)"; }
    listed "zero to" tokenize tokenizer
    listed "zero train --save" --save-every --save-seconds
    listed "zero train --dtype " fp32 bf16 fp16 auto
    listed "zero train --val " none model.json
    listed "zero bench " comm gemm step
    listed "zero simulate --order tensor," context data
    listed "zero inspect model.json " model.json sub/
else
    echo "SKIPPED: the completion of zsh, which is not installed"
fi
if command -v fish >/dev/null; then
    fish -n script.fish || fail "the script of fish is none"
    # listed LINE WORD...: that fish lists exactly these.
    listed()
    {
        local line=$1
        shift
        fish -c "source script.fish; complete -C '$line'" 2>&1 | cut -f 1 | sort >shown.txt
        [ "$(cat shown.txt)" = "$(printf '%s\n' "$@" | sort)" ] || fail "fish, completing \"$line\": $(cat shown.txt)"
    }
    listed "zero to" tokenize tokenizer
    listed "zero train --save" --save-every --save-seconds
    listed "zero train --dtype " fp32 bf16 fp16 auto
    listed "zero train --config mod" model.json
    listed "zero train --val mo" model.json
    listed "zero train --model su" sub/
    listed "zero train --data model.json tw" "two words.txt"
    listed "zero bench st" step
    listed "zero bench step --pat" --path
    listed "zero simulate --order tensor,da" tensor,data
else
    echo "SKIPPED: the completion of fish, which is not installed"
fi
echo "shells complete what the table has"
