#!/usr/bin/env bash
# The man pages: each has its sections and is roff without faults, describes every option of its command or says that zero(1) does,
# and its examples are command lines that the program takes.
. "$(dirname "$0")/lib.sh"

# sections FILE: the names of its sections, in one line.
sections() { sed -n 's/^\.SH //p' "$1" | paste -sd ' '; }

# unroff: text as it was before it was written for roff.
unroff() { sed -e 's/\\:\|\\&//g; s/\\-/-/g; s/\\f[BIR]//g; s/\\e/\\/g'; }

# well_formed FILE: groff finds nothing to say of it.
well_formed()
{
    groff -man -Tutf8 -ww -z "$1" >said.txt 2>&1 && [ ! -s said.txt ] || fail "groff of $1: $(head -3 said.txt)"
}

expect 0 "$ZERO" --help
commands=$(sed -n 's/^  zero \([a-z]*\)  *[a-z].*/\1/p' out.txt | grep -vx help)
[ "$(wc -w <<<"$commands")" -eq 17 ] || fail "the commands: $commands"
roff=yes
command -v groff >/dev/null || { roff=no && echo "SKIPPED: whether man pages are well-formed, because there is no groff"; }

expect 0 "$ZERO" --man
mv out.txt zero.1
[ "$(sections zero.1)" = "NAME SYNOPSIS COMMANDS OPTIONS FILES EXIT STATUS SEE ALSO" ] || fail "sections of zero.1: $(sections zero.1)"
unroff <zero.1 >zero.txt
[ $roff = no ] || well_formed zero.1
examples=0
for command in $commands; do
    expect 0 "$ZERO" --man "$command"
    mv out.txt page.1
    unroff <page.1 >page.txt
    [ "$(sections page.1)" = "NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES FILES SEE ALSO" ] || fail "sections of $command: $(sections page.1)"
    grep -A 1 '^\.SH FILES' page.1 | grep -q '^\.TP' || fail "the page of $command names no file"
    grep -qx "zero-$command - .*" page.txt || fail "the name of $command's page"
    grep -qF "zero-$command (1)" zero.txt || fail "zero.1 does not name zero-$command"
    [ $roff = no ] || well_formed page.1
    expect 0 "$ZERO" "$command" --help
    for option in $(grep -oE '^  --[a-z-]+' out.txt); do
        grep -qE "^$option( |$)" page.txt || { grep -qE "^$option( |,|\.|$)" <(sed -n '/^\.BR zero (1)/,/^\.SH/p' page.txt) && grep -qE "^$option( |$)" zero.txt; } ||
            fail "$option of $command is in neither page"
    done
    # An example is parsed as far as --help, which comes last, or before a program of the user's. Its quotes are a shell's.
    sed -n '/^\.SH EXAMPLES/,/^\.SH FILES/s/^\.B //p' page.txt >examples.txt
    [ "$(wc -l <examples.txt)" -ge 2 ] && [ "$(wc -l <examples.txt)" -le 3 ] || fail "examples of $command: $(cat examples.txt)"
    while read -r example; do
        case $example in "zero $command"* | "mpirun -n 4 --hostfile hosts zero $command"*) ;; *) fail "an example of $command is: $example" ;; esac
        line=${example#*zero }
        line=${line/ .\/split/ --help .\/split}
        words=()
        eval "words=($line --help)"
        expect 0 "$ZERO" "${words[@]}"
        grep -q "^usage: zero $command" out.txt || fail "not parsed: $example"
        examples=$((examples + 1))
    done <examples.txt
done
# What needs no files is run, too.
for command in plan simulate; do
    "$ZERO" --man $command | unroff | sed -n '/^\.SH EXAMPLES/,/^\.SH FILES/s/^\.B zero //p' | grep -v config.json >examples.txt
    [ -s examples.txt ] || fail "no example of $command"
    while read -r example; do
        eval "words=($example)"
        expect 0 "$ZERO" "${words[@]}"
    done <examples.txt
done
refused 64 "did you mean train?" "$ZERO" --man trian
echo "$(wc -w <<<"$commands") man pages, $examples examples"
