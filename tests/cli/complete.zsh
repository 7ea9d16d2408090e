# complete.zsh FOLDER LINE WORD...: in a zsh of its own that finds the file _zero in FOLDER, types LINE and asks for what may
# follow. Exit 0 once every WORD has been listed; after some seconds, exit 1 with what was shown.
zmodload zsh/zpty
folder=$1 line=$2
shift 2
zpty session zsh -f -i
zpty -w session "stty -echo; PS1=; fpath=($folder \$fpath); autoload -U compinit; compinit -u -D; bindkey '^I' list-choices
zstyle ':completion:*' verbose no; LISTMAX=0; COLUMNS=80; LINES=200; print REA''DY"
zpty -r -m session shown '*READY*'
zpty -n -w session "$line"$'\t'
shown=
for ((i = 0; i < 100; i++)); do
    sleep 0.1
    while zpty -r -t session chunk; do shown+=$chunk; done
    missing=()
    for word in "$@"; do [[ ${shown#*$line} == *${word}* ]] || missing+=($word); done
    (($#missing)) || exit 0
done
print -r -- "not listed: $missing; shown: $shown"
exit 1
