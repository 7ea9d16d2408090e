#!/usr/bin/env bash
# docs/tutorial.md, from its beginning to its end in one shell: every command succeeds, and every line of output that the page
# shows is printed by the commands above it. A line that ends in " ..." is the beginning of one.
#
# In the page, a block of "sh" is commands, of "python" or "json" the file that the paragraph above it names last, and a block
# without a language is what the commands before it print. Bytes of scratch and last digits of losses are compared where the
# instructions are those of the page's processor (AVX2 alone).
. "$(dirname "$0")/lib.sh"
PAGE=$HERE/../../docs/tutorial.md

mkdir -p build examples && ln -s "$ZERO" build/zero && cp -r "$HERE/../../examples/text" examples/
python3 - "$PAGE" <<'PY'
import re, sys
lines = open(sys.argv[1]).read().split("\n")
kind, names, count = None, "", 0
for number, line in enumerate(lines, 1):
    if not line.startswith("```"):
        if kind is not None:
            block.append(line)
        else:
            names = (names if line.strip() else "") + line if line.strip() else names + " "
    elif kind is None:
        kind, block, first = line[3:] or "shown", [], number
    else:
        if kind in ("python", "json"):
            name, kind = re.findall(r"`(build/hour/\S+)`", names)[-1], "file"
            block.insert(0, name)
        count += 1
        assert kind in ("sh", "shown", "file"), f"{sys.argv[1]}:{first}: a block of {kind}"
        open(f"{count:03}.{kind}", "w").write("\n".join(block) + "\n")
        open(f"{count:03}.line", "w").write(str(first))
        kind, names = None, ""
PY

# same_everywhere: takes out what depends on the instructions of a processor: the last two columns of a plan, digits of a loss.
if grep -qw avx2 /proc/cpuinfo && ! grep -qw avx512f /proc/cpuinfo; then
    same_everywhere() { sed -E 's/ +$//'; }
else
    same_everywhere() { sed -E 's/ +$//; s/^( +[0-3] +4 +2 .*B)( +[0-9.]+ [kM]B){2}$/\1/; s/ ([0-9]\.[0-9]{3})[0-9]{3}$/ \1/'; }
fi

shown() # shown FILE LINE: out.txt has each line of it
{
    local wanted
    same_everywhere <out.txt >printed.txt
    while IFS= read -r wanted; do
        case $wanted in
            *" ...") WANTED="${wanted% ...}" awk 'index($0, ENVIRON["WANTED"]) == 1 { found = 1 } END { exit !found }' printed.txt ;;
            *) grep -qxF -- "$wanted" printed.txt ;;
        esac || fail "tutorial.md:$2: not printed: $wanted"$'\n'"$(tail -30 out.txt)"
    done < <(same_everywhere <"$1")
}

set -o pipefail
commands=0 lines=0
for block in [0-9]*.sh [0-9]*.shown [0-9]*.file; do echo "$block"; done | sort >blocks
while read -r block <&4; do
    at=$(cat "${block%.*}.line")
    case $block in
        *.file) tail -n +2 "$block" >"$(head -1 "$block")" ;;
        *.shown) shown "$block" "$at" && lines=$((lines + $(wc -l <"$block"))) ;;
        *.sh)
            : >out.txt
            while IFS= read -r command <&3; do
                eval "$command" >>out.txt 2>&1 </dev/null || fail "tutorial.md:$at: $command"$'\n'"$(tail -5 out.txt)"
                commands=$((commands + 1))
            done 3<"$block" ;;
    esac
done 4<blocks
cmp build/hour/stage3.svg "$HERE/../../docs/tutorial-stage3.svg" || fail "docs/tutorial-stage3.svg is not what the page draws"
[ $commands -ge 20 ] && [ $lines -ge 40 ] || fail "the page has only $commands commands and $lines lines of output"
echo "$commands commands of docs/tutorial.md print the $lines lines that it shows"
