#!/usr/bin/env bash
# Generation on several ranks: the text of one rank, whoever starts them; prompts that rank 0 alone can read; ranks that die; what is refused.
. "$(dirname "$0")/lib.sh"
GOLDEN=$HERE/generate
TOKENIZERS=$HERE/../tokenizer/tokenizers
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # Open MPI leaks at its end
parent=
trap '[ -z "$parent" ] || kill -KILL $parent 2>/dev/null; cd /; rm -rf "$WORK"' EXIT
for pair in gpt2:smollm2 llama:llama2 sliding:llama2; do
    name=${pair%:*}
    mkdir $name
    cp "$GOLDEN/$name"/* $name
    cp "$TOKENIZERS/${pair#*:}.json" $name/tokenizer.json
    python3 -c 'import json, sys
for line in open(sys.argv[1]): print(json.dumps({"prompt": json.loads(line)["prompt"]}))' "$GOLDEN/$name.jsonl" >$name.jsonl
done
zg() { expect 0 "$ZERO" generate --model "$@" --threads 1; }

# Transformers' tokens, with parameters that the ranks divide, in memory and on NVMe.
echo "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"$WORK\"}}}" >nvme.json
for name in $(sample "gpt2 llama sliding" "gpt2 sliding"); do
    for ranks in $(sample "2 3" 2); do
        zg $name --prompts $name.jsonl --json --temperature 0 --ranks $ranks
        cmp out.txt "$GOLDEN/$name.jsonl" || fail "$name on $ranks ranks: other tokens than transformers"
    done
    zg $name --prompts $name.jsonl --json --temperature 0 --ranks 2 --config nvme.json --batch 3
    cmp out.txt "$GOLDEN/$name.jsonl" || fail "$name on 2 ranks, parameters on NVMe: other tokens"
done

# same_everywhere ARGUMENTS: random choice gives one text on 1, 2 and 3 ranks; what is printed comes once.
same_everywhere() {
    zg "$@" --tokens 30 --seed 3
    mv out.txt one.txt
    for ranks in 2 3; do
        zg "$@" --tokens 30 --seed 3 --ranks $ranks
        cmp out.txt one.txt || fail "on $ranks ranks another text, of: $*"
        ! grep -qv '^took ' err.txt || fail "on $ranks ranks: $(cat err.txt)"
    done
}
printf 'a line\nFirst Citizen:\n' >lines.txt
same_everywhere llama --prompt Speak
same_everywhere llama --prompt Speak --prompts lines.txt --batch 2
same_everywhere gpt2 --chat chatml --prompt "Who?" --top-k 20
# A pipe has one reader, and what starts the ranks leaves it to rank 0.
expect 0 "$ZERO" generate --model llama --prompts lines.txt --json --tokens 20 --seed 3 --threads 1
mv out.txt one.txt
for ranks in 1 2; do
    timeout 100 "$ZERO" generate --model llama --prompts /dev/stdin --json --tokens 20 --seed 3 --threads 1 --ranks $ranks < <(cat lines.txt) >out.txt 2>err.txt
    cmp out.txt one.txt || fail "prompts of a pipe, $ranks ranks: $(cat out.txt err.txt)"
done
# So is a conversation led on rank 0, and a text that ends an answer is found on every rank.
for ranks in 1 2; do
    timeout 100 "$ZERO" generate --model gpt2 --chat chatml --tokens 8 --seed 3 --stop " the" --stop . --threads 1 --ranks $ranks < <(printf 'Who?\nAnd then?\n/reset\nWhy?\n') >talk$ranks.txt 2>err.txt ||
        fail "a conversation on $ranks ranks: $(cat err.txt)"
done
cmp talk1.txt talk2.txt || fail "a conversation on two ranks is another"
[ "$(wc -l <talk1.txt)" -ge 3 ] || fail "three answers: $(cat talk1.txt)"
expect 0 "$ZERO" run --ranks 2 "$ZERO" generate --model llama --prompts lines.txt --json --tokens 20 --seed 3 --threads 1
cmp out.txt one.txt || fail "under zero run: another text"
mpi=no
if ! command -v mpirun >/dev/null; then
    echo "SKIPPED: ranks of MPI, because there is no mpirun on this machine"
elif ! "$ZERO" doctor | grep -q "^MPI *module found"; then
    echo "SKIPPED: ranks of MPI, because this build has no module for it"
else
    mpi=yes
    for comm in auto mpi; do
        expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" generate --model llama --prompts lines.txt --json --tokens 20 --seed 3 --threads 1 --comm $comm
        cmp out.txt one.txt || fail "under mpirun with --comm $comm: another text"
    done
fi

# What rank 0 finds wrong is everyone's end, and said once.
refused 64 '--ranks 3, but the launcher started 1' env RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 "$ZERO" generate --model llama --ranks 3
refused 64 '--comm self is one rank, --ranks says 2' "$ZERO" generate --model llama --ranks 2 --comm self
refused 64 '3 ranks are no multiple of --tensor 2: --ranks 2 or 4' "$ZERO" generate --model llama --ranks 3 --tensor 2
refused 74 'missing.txt' "$ZERO" generate --model llama --prompts missing.txt --ranks 2
printf 'a\nb\0c\n' >zero.txt
refused 65 'zero.txt:2: a zero byte' "$ZERO" generate --model llama --prompts zero.txt --ranks 2
refused 74 'nowhere' "$ZERO" generate --model nowhere --ranks 2
refused 78 'chat template' "$ZERO" generate --model gpt2 --chat auto --prompt "Who?" --ranks 2
refused 78 'generating 8 at once' "$ZERO" generate --model gpt2 --prompts gpt2.jsonl --ranks 2 --host-memory 200KB

# A rank that is killed ends the others; a signal from outside ends all.
begin() {
    "$ZERO" generate --model llama --prompt Speak --tokens 1000000 --ignore-end --ranks 3 --threads 1 >out.txt 2>err.txt &
    parent=$!
    for _ in $(seq 600); do [ "$(wc -c <out.txt)" -lt 100 ] || return 0; sleep 0.05; done
    fail "no text within 30 s: $(cat err.txt)"
}
end() { # end CODE
    local got=0
    for _ in $(seq 100); do kill -0 $parent 2>/dev/null || break; sleep 0.05; done
    kill -KILL $parent 2>/dev/null # where it still runs: 137 is told below
    wait $parent || got=$?
    [ $got -eq "$1" ] || fail "exit code $got, not $1: $(cat err.txt)"
    for pid in $children; do kill -0 "$pid" 2>/dev/null && fail "rank process $pid is left"; done
    parent=
}
begin
children=$(children_of $parent)
kill -KILL "$(echo "$children" | tail -1)"
end 137
grep -q 'rank 2 was killed by signal 9' err.txt || fail "a killed rank: $(cat err.txt)"
begin
children=$(children_of $parent)
kill -INT $parent
end 130
grep -q 'ended by signal 2' err.txt || fail "Ctrl-C: $(cat err.txt)"

# Who reads no further ends it quietly, with the exit code of one rank.
for ranks in 1 2; do
    "$ZERO" generate --model llama --prompt "Once" --tokens 10000 --ignore-end --threads 1 --ranks $ranks 2>err.txt | head -c 1 >out.txt
    codes=${PIPESTATUS[*]}
    [ "$codes" = "141 0" ] && [ ! -s err.txt ] || fail "a closed pipe on $ranks ranks: $codes, $(cat err.txt)"
done

# A model that is cut into 4 slices says the same, whoever computes them.
echo '{"libzero": {"exact_tensor": 4}}' >slices.json
for name in gpt2 llama sliding; do
    for how in "--temperature 0" "--seed 3"; do
        zg $name --config slices.json --prompts $name.jsonl --json --tokens 100 $how
        mv out.txt whole.txt
        for grid in "2 2" "4 4" "4 2"; do
            zg $name --config slices.json --prompts $name.jsonl --json --tokens 100 $how --ranks ${grid% *} --tensor ${grid#* }
            cmp out.txt whole.txt || fail "$name, 4 slices on ${grid% *} ranks, --tensor ${grid#* }, $how: other tokens than on one rank"
        done
        [ $mpi = yes ] || continue
        expect 0 "${MPIRUN[@]}" -n 2 "$ZERO" generate --model $name --config slices.json --prompts $name.jsonl --json --tokens 100 $how --threads 1 --comm mpi --tensor 2
        cmp out.txt whole.txt || fail "$name, 4 slices on 2 ranks of MPI, $how: other tokens than on one rank"
    done
done
# So do samples between the steps of a training.
sample_of() { # sample_of ARGUMENTS
    expect 0 "$ZERO" train --new $TINY --data "$TEXT" --val none --tokenizer chars --config slices.json --stage 2 --micro-batch 2 --steps 4 --sample-every 2 --threads 1 --overwrite --out run "$@"
    sed -n '/^--- step .* a sample ---$/,/^---$/p' out.txt
}
sed -i 's/4/2/' slices.json
sample_of >one.txt
[ "$(grep -c 'a sample ---$' one.txt)" -eq 2 ] || fail "samples: $(cat out.txt)"
sample_of --ranks 2 --tensor 2 >two.txt
cmp one.txt two.txt || fail "samples of a training on 2 tensor ranks: $(cat two.txt)"
echo "several ranks say what one says"
