#!/usr/bin/env bash
# Adapters become part of a model (--adapter), and adapters of a checkpoint become a directory as peft saves it.
. "$(dirname "$0")/lib.sh"
S=layers=2,heads=4,width=32,context=32
expect 0 "$ZERO" train --new gpt2:$S --data "$TEXT" --threads 1 --quiet --steps 5 --lr 0.01 --out gpt2
expect 0 "$ZERO" train --new llama:kv_heads=2,inner=64,tied=0,vocab=257,$S --data "$TEXT" --threads 1 --quiet --steps 5 --lr 0.01 --out llama
expect 0 "$ZERO" train --new pythia-14m:$S --data "$TEXT" --threads 1 --quiet --steps 5 --lr 0.01 --out neox
loss() { # loss OPTION...: of a model; --data may come again
    expect 0 "$ZERO" eval --data "$TEXT" --threads 1 --json "$@"
    python3 -c "import json; print(json.load(open('out.txt'))['loss'])"
}

for name in gpt2 llama neox; do
    lora=r=3,alpha=5
    [ $name != llama ] || lora=r=4,alpha=3,rslora,targets=q_proj+down_proj
    expect 0 "$ZERO" train --model $name/model --lora $lora --data "$TEXT" --threads 1 --quiet --steps 6 --lr 0.1 --save-every 3 --keep 0 --out $name-run
    apart=$(loss --model $name/model --adapter $name-run)
    ! near "$apart" "$(loss --model $name/model)" 0.01 || fail "$name: the adapter learnt nothing"
    # the merged model has the loss of both, whatever it is made of, and however
    expect 0 "$ZERO" convert --from $name/model --adapter $name-run/adapter --to $name-merged
    near "$apart" "$(loss --model $name-merged)" 2e-6 || fail "$name: merged, the loss is another: $apart, $(loss --model $name-merged)"
    expect 0 "$ZERO" convert --from $name/model --adapter $name-run --to $name-small --shard-size 20KB
    expect 0 "$ZERO" diff $name-merged $name-small
    expect 0 "$ZERO" convert --from $name --model $name/model --adapter $name-run --to $name-run-merged # the run's newest checkpoint
    expect 0 "$ZERO" diff $name-merged $name-run-merged
    for half in merged model; do cmp $name-merged/config.json $name/model/config.json || fail "$name: another config.json"; done
    expect 0 "$ZERO" convert --from $name/model --adapter $name-run --to $name.gguf --type f32
    expect 0 "$ZERO" convert --from $name-merged --to $name-2.gguf --type f32
    expect 0 "$ZERO" diff $name.gguf $name-2.gguf
    # a checkpoint's adapters: those of the last step are the run's
    expect 0 "$ZERO" convert --from $name-run/checkpoints/step-00000006 --to $name-last
    cmp $name-last/adapter_model.safetensors $name-run/adapter/adapter_model.safetensors || fail "$name: the last checkpoint has another adapter"
    cmp $name-last/adapter_config.json $name-run/adapter/adapter_config.json || fail "$name: another adapter_config.json"
    expect 0 "$ZERO" convert --from $name-run/checkpoints/step-00000003 --to $name-third --quiet
    ! near "$apart" "$(loss --model $name/model --adapter $name-third)" 1e-4 || fail "$name: step 3 is step 6"
    expect 0 "$ZERO" convert --from $name-run/checkpoints/step-00000006 --to $name-third --overwrite
    near "$apart" "$(loss --model $name/model --adapter $name-third)" 1e-12 || fail "$name: not replaced"
done

# Types: a weight is rounded once, from its sum.
expect 0 "$ZERO" convert --from llama/model --to half --dtype bf16
expect 0 "$ZERO" convert --from half --adapter llama-run --to half-merged
expect 0 "$ZERO" convert --from half --adapter llama-run --to half-wide --dtype fp32
expect 0 "$ZERO" convert --from half-wide --to half-again --dtype bf16
expect 0 "$ZERO" diff half-merged half-again
[ "$(loss --model half-merged)" != "$(loss --model half-wide)" ] || fail "nothing was rounded"
grep -q bfloat16 half-merged/config.json || fail "the type in config.json: $(cat half-merged/config.json)"

# An adapter keeps the template and the tokenizer that it was trained with, whatever the base has.
head -20 "$TEXT" | python3 -c "
import sys, json
for line in sys.stdin: print(json.dumps({'messages': [{'role': 'user', 'content': line[:9]}, {'role': 'assistant', 'content': line[9:20] + '.'}]}))" >chat.jsonl
cp -r llama/model spoken
echo '{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}' >own.jinja
echo '{% for m in messages %}#{{ m.content }}+{% endfor %}{% if add_generation_prompt %}#{% endif %}' >spoken/chat_template.jinja
expect 0 "$ZERO" train --model spoken --lora r=2 --chat own.jinja --data chat.jsonl --val none --threads 1 --quiet --steps 2 --out said
expect 0 "$ZERO" convert --from spoken --adapter said/adapter --to said-model
cmp said-model/chat_template.jinja own.jinja || fail "merged, the template is another: $(cat said-model/chat_template.jinja)"
own=$(loss --model said-model --data chat.jsonl --seq 32)
[ "$own" = "$(loss --model said-model --chat own.jinja --data chat.jsonl --seq 32)" ] || fail "the merged model's own template"
near "$own" "$(loss --model spoken --adapter said/adapter --data chat.jsonl --seq 32)" 2e-6 || fail "--adapter took the template of the base"
! near "$own" "$(loss --model spoken --adapter said/adapter --chat spoken/chat_template.jinja --data chat.jsonl --seq 32)" 1e-3 || fail "the templates do not differ"
expect 0 "$ZERO" convert --from spoken --adapter said/adapter --to said.gguf --type f32
python3 "$HERE/gguf.py" keys said.gguf tokenizer.chat_template >template.txt
grep -qF '<{{ m.role }}>' template.txt || fail "the template in GGUF: $(cat template.txt)"

# Another base is warned of, and so is a merge of what is merged.
expect 0 "$ZERO" convert --from llama-merged --adapter llama-run/adapter --to twice
grep -q '"llama-run/adapter" is an adapter of the model "llama/model", not of "llama-merged"' err.txt || fail "merged twice, in silence: $(cat err.txt)"
expect 0 "$ZERO" eval --model llama-merged --adapter llama-run/adapter --data "$TEXT" --threads 1
grep -q 'is an adapter of the model "llama/model"' err.txt || fail "another base, in silence: $(cat err.txt)"
expect 0 "$ZERO" eval --model llama/model --adapter llama-run/adapter --data "$TEXT" --threads 1
! grep -q 'is an adapter of' err.txt || fail "its own base: $(cat err.txt)"

# Refused, in one sentence.
no() { refused "$1" "$2" "$ZERO" convert --to no "${@:3}"; [ ! -e no ] || fail "something is left: $(ls no)"; }
no 64 'holds adapters alone: --from names the model' --from llama-run/checkpoints/step-00000003 --adapter llama-run/adapter
no 78 'is an adapter, not a model' --from llama-run/adapter
no 78 'holds adapters alone: --to DIR writes them as peft saves them' --from llama-run/checkpoints/step-00000003 --format gguf
no 64 '--adapter is added to a model' --from llama/model --adapter llama-run/adapter --format libzero
no 74 'is a model, not an adapter' --from llama/model --adapter gpt2/model
no 74 'there is no directory "nothing"' --from llama/model --adapter nothing
no 65 'which is no linear layer of a block of' --from gpt2/model --adapter llama-run/adapter
expect 0 "$ZERO" train --new llama:kv_heads=2,inner=48,tied=0,vocab=257,$S --data "$TEXT" --threads 1 --quiet --steps 1 --out narrow
no 65 'does not fit "model.layers.0.mlp.down_proj.weight" of the model, of 32 x 48: it would be 4 x 48' --from narrow/model --adapter llama-run/adapter
expect 0 "$ZERO" train --new llama:kv_heads=2,inner=64,tied=0,vocab=257,layers=1,heads=4,width=32,context=32 --data "$TEXT" --threads 1 --quiet --steps 1 --out low
no 65 'belongs to no weight of the model' --from low/model --adapter llama-run/adapter
refused 64 'is read by this command (--adapter llama-third): it is not replaced' "$ZERO" convert --from llama/model --adapter llama-third --to llama-third --overwrite
echo "adapters converted"
