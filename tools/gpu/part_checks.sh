# shellcheck shell=bash disable=SC2034,SC2054,SC2154 # `run` and these files share variables; models have commas
# What the parts of tools/gpu/run share: each check is a command with a time that it may take, and one line of JSON:
#   {"part":"bits","check":"gpt2:twice","ok":true,"seconds":1.2,...}
# ok is false with "why", or null with "skipped". None stops another. `run` has set: here programs emulated small out limit work.
# The functions below are called by part_list.sh; bash, coreutils, awk, sed and gzip are all that they need.

log=$work/log            # what the command of a check wrote
lines=$work/lines        # all lines, for the table
whole_end=$((SECONDS + limit)) # when all of it is over
part_end=$whole_end
: >"$lines"
[ -z "$out" ] || : >"$out"

# part_begin SECONDS: the part that begins now may take so long.
part_begin()
{
    part_end=$((SECONDS + $1))
    [ $part_end -le $whole_end ] || part_end=$whole_end
}

json_text() # the last words of stdin, as the inside of a JSON string
{
    tr '\000-\037\177-\377' ' ' | tr -s ' ' | tail -c 800 | sed 's/[\\"]/\\&/g; s/^ //; s/ $//'
}

line() # line PART CHECK OK SECONDS EXTRA
{
    local text="{\"part\":\"$1\",\"check\":\"$2\",\"ok\":$3,\"seconds\":$4${5:-}}"
    printf '%s\n' "$text"
    [ -z "$out" ] || printf '%s\n' "$text" >>"$out"
    printf '%s %s %s %s\n' "$1" "$2" "$3" "$4" >>"$lines"
}

skip() { line "$1" "$2" null 0 ",\"skipped\":\"$(json_text <<<"$3")\""; }

# check PART CHECK LIMIT COMMAND...: the command, a program or a function. Where `after` names a function, that one looks at $log
# when the command has ended well, and prints what the line has more: ,"key":value; what it returns counts, too. Returns 0 if all is well.
check()
{
    local part=$1 name=$2 most=$3 got=0 begin taken extra='' why='' then=${after:-}
    shift 3
    [ $((part_end - SECONDS)) -gt "$most" ] || most=$((part_end - SECONDS))
    if [ "$most" -lt 1 ]; then skip "$part" "$name" "no time was left"; return 1; fi
    begin=$EPOCHREALTIME
    if [ "$(type -t "$1")" = function ]; then "$@" >"$log" 2>&1 </dev/null || got=$?
    else (timeout -k 3 "$most" "$@" >"$log" 2>&1 </dev/null; exit $?) 2>/dev/null || got=$?; fi # whose shell tells of signals
    taken=$(awk -v from="$begin" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }')
    [ -z "$out" ] || { echo "== $part $name: status $got, $taken s: $*"; tail -c 20000 "$log"; } >>"$out.log"
    case $got in
        0) if [ -n "$then" ]; then extra=$("$then" "$log") || { got=1 why="what it wrote is not as it should be"; }; fi ;;
        77) skip "$part" "$name" "$(cat "$log")"; return 1 ;;
        124 | 137) why="it took longer than $most s: $(tail -n 3 "$log")" ;;
        *) why="status $got: $(grep -aE 'ERROR|rror:|differ' "$log" | head -n 2 | cut -c1-240) $(grep -a FAILED "$log" | tail -n 3) $(tail -n 1 "$log")" ;;
    esac
    if [ "$got" -eq 0 ]; then line "$part" "$name" true "$taken" "$extra"; return 0; fi
    line "$part" "$name" false "$taken" "$extra,\"why\":\"$(json_text <<<"$why")\""
    return 1
}

# program NAME: its path: of a bundle, where tests are packed, or of a build.
program()
{
    local folder packed=$programs/$1.gz
    for folder in "$programs" "$programs/tests/cuda" "$work/unpacked"; do
        if [ -f "$folder/$1" ] && [ -x "$folder/$1" ]; then echo "$folder/$1"; return; fi
    done
    [ -f "$packed" ] || return 0
    mkdir -p "$work/unpacked"
    gzip -dc "$packed" >"$work/unpacked/$1" && chmod +x "$work/unpacked/$1" && echo "$work/unpacked/$1"
}

# first_program NAME FOLDER...: of those in PATH and in the folders.
first_program()
{
    local folder name=$1
    shift
    command -v "$name" && return
    for folder; do
        if [ -x "$folder/$name" ]; then echo "$folder/$name"; return; fi
    done
}

# table: what there was, for a person.
table()
{
    awk '
        { printf "%-10s %-34s %-8s %8s s\n", $1, $2, $3 == "true" ? "ok" : $3 == "null" ? "skipped" : "FAILED", $4
          count[$3]++; all += $4 }
        END { printf "%d ok, %d failed, %d skipped; %.0f s\n", count["true"], count["false"], count["null"], all }' "$lines"
}
