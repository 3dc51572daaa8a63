#!/usr/bin/env bash
# Runs the examples that have devices on cuda:0: they print what examples/expected/ says, train, or, gpt2, give what
# PyTorch computes (examples/CMakeLists.txt has the same for the driver without a GPU).
#
#   bash tests/gpu/examples.sh build/release/bin examples            all of them
#   bash tests/gpu/examples.sh build/release/bin examples --short    the first three
set -uo pipefail
bin=$1 examples=$2 short=${3:-}
status=0
fails() {
    echo "examples.sh: $1" >&2
    status=1
}

# prints EXPECTED PROGRAM [ARGUMENT...]: a line that begins with "~ " is a regular expression.
prints() {
    local name=$1 program=$2 found=() expected=() i
    shift 2
    mapfile -t found < <("$bin/$program" "$@" || echo "it ended with $?")
    mapfile -t expected <"$examples/expected/$name.txt"
    [ ${#found[@]} = ${#expected[@]} ] ||
        fails "$program printed ${#found[@]} lines, and ${#expected[@]} were expected: ${found[*]}"
    for i in "${!expected[@]}"; do
        local want=${expected[i]} line=${found[i]-}
        if [[ $want == '~ '* ]]; then
            [[ $line =~ ^${want:2}$ ]] || fails "$program: \`$line\` does not match \`${want:2}\`"
        elif [ "$line" != "$want" ]; then
            fails "$program: \`$want\` was expected, and \`$line\` printed"
        fi
    done
}

# trains BELOW PROGRAM [ARGUMENT...]: the last loss is less.
trains() {
    local below=$1 program=$2 output losses
    shift 2
    output=$("$bin/$program" "$@") || fails "$program ended with $?"
    losses=$(grep -oE '(step|epoch) +[0-9]+ +loss [0-9.]+' <<<"$output" | awk '{ print $NF }')
    [ "$(wc -l <<<"$losses")" -ge 2 ] || fails "$program: at least two losses were expected: $output"
    awk -v last="$(tail -n 1 <<<"$losses")" -v below="$below" 'BEGIN { exit !(last != "" && last < below) }' ||
        fails "$program: the last loss is to be less than $below: $losses"
}

prints quickstart_on_cuda quickstart cuda:0
prints cuda_call cuda_call cuda:0
prints agnostic_gpu agnostic
if [ "$short" != --short ]; then
    prints regression regression --device cuda:0
    prints hessian hessian 6 cuda:0
    prints black_scholes black_scholes 100000 cuda:0
    trains 0.8 digits "$examples/data/digits.csv.gz" --epochs 4 --device cuda:0 # from 1.9
    trains 3.9 char_gpt --layers 1 --width 32 --heads 2 --context 16 --batch 8 --sample 4 --steps 20 --device cuda:0
    gpt2=$("$bin/gpt2" --weights "$examples/data/gpt2_tiny.safetensors" --layers 2 --width 16 --heads 2 --vocabulary 30 \
        --context 32 --tokens 3,1,4,1,5,9,2,6 --generate 6 --repeat 1 --device cuda:0)
    gpt2=${gpt2//$'\n'/ }
    [[ $gpt2 =~ mean\ 0\.938[23][0-9]+,\ deviation\ 3\.7711[0-9]+,\ likeliest\ token\ 28.*goes\ on:\ 28,11,11,11,15,15 ]] ||
        fails "gpt2 gave something else than PyTorch: $gpt2"
fi
exit $status
