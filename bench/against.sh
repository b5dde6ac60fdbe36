#!/bin/sh
# against.sh BENCH REV ROUNDS [ARGS]
#
# Runs build/release/bench/BENCH and the same bench with the library of commit REV in turns. Prints
# the medians of their figures and two ratios, of the medians and of the best rounds: above 1, this
# tree is better. Called by `./dev bench NAME --against REV`, which has built this tree.
#
# Other load on the machine spoils medians (the same library twice: up to 40 % apart with three times
# more threads than cores), but rarely the best rounds. A real loss shows in both ratios, so the
# better of the two counts.
#
# The library of REV is built in build/against/COMMIT, by its own CMake files. This tree's
# bench is used if it compiles there, so that only the library differs; otherwise the bench of REV.
set -u

root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
bench=$1
rev=$2
rounds=$3
shift 3

# Names that the benches use and older trees do not have, with their old names: NEW=OLD.
renamed='inline_ns=brief_ns PTO_NO_INLINE=PTO_NO_BRIEF ring_tasks=window
    ptoi_exchange64=ptoi_swap64 ptoi_fetch_add32=ptoi_add32'

die() {
    echo "dev: $*" >&2
    exit 2
}

commit=$(git -C "$root" rev-parse --verify --quiet "$rev^{commit}") || die "no commit '$rev'"
short=$(git -C "$root" rev-parse --short=10 "$commit")
tree=$root/build/against/$short
new=$root/build/release/bench/$bench
old=$tree/build/release/bench/$bench
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# step TEXT COMMAND...: prints one short line; the output of the command goes to $work/log.
step() {
    printf '%s ... ' "$1" >&2
    shift
    if "$@" >"$work/log" 2>&1; then
        echo ok >&2
    else
        echo FAILED >&2
        return 1
    fi
}

extract() {
    rm -rf "$tree"
    mkdir -p "$tree/own"
    git -C "$root" archive "$commit" | tar -x -C "$tree" && mv "$tree/bench" "$tree/own/bench" &&
        cd "$tree" && cmake --preset release -DPTO_WERROR=OFF -DPTO_BUILD_TESTS=OFF -DPTO_CUDA=OFF \
            -DPTO_MPI=OFF &&
        echo "$tree" >"$tree/.configured"
}

build() {
    cmake --build "$tree/build/release" -j "$(nproc)" --target "$bench"
}

# take FOLDER: uses the benches of this folder, with the names that REV has.
take() {
    rm -rf "$tree/bench"
    cp -R "$1" "$tree/bench"
    for pair in $renamed; do
        if ! grep -rqw "${pair%=*}" "$tree/include" "$tree/src"; then
            find "$tree/bench" -name '*.[ch]' -exec sed -i "s/\<${pair%=*}\>/${pair#*=}/g" {} +
        fi
    done
}

[ "$(cat "$tree/.configured" 2>/dev/null)" = "$tree" ] || step "configure $short" extract || {
    cat "$work/log" >&2
    die "$rev cannot be configured here"
}
take "$root/bench"
whose="this tree's bench"
step "build $short" build || {
    grep -m 5 -e 'error:' -e 'undefined reference' "$work/log" >&2
    echo "this tree's $bench does not build with the library of $rev: each side runs its own bench" >&2
    whose="its own bench"
    take "$tree/own/bench"
    step "build $short, its own bench" build || {
        cat "$work/log" >&2
        die "$bench of $rev does not build here"
    }
}

# measure PROGRAM FILE ARGS...
measure() {
    program=$1
    file=$2
    shift 2
    "$program" "$@" >"$file" 2>"$work/log"
    # 1: a bar was missed, which does not matter here.
    [ $? -le 1 ] || {
        cat "$work/log" >&2
        die "$program $* failed"
    }
}

round=0
while [ $round -lt "$rounds" ]; do
    round=$((round + 1))
    [ ! -t 2 ] || printf '\r\033[Kround %d of %d' "$round" "$rounds" >&2
    measure "$old" "$work/old.$round" "$@"
    measure "$new" "$work/new.$round" "$@"
done
[ ! -t 2 ] || printf '\r\033[K' >&2

echo "$bench${*:+ $*}: medians of $rounds; old: the library of $short with $whose, new: this tree"
echo
# A figure is a line "figure NAME VALUE UNIT"; if there is none, "BAR NAME: VALUE UNIT (want ...".
awk -v rev="$rev" '
function median(list, word, n, i, j, swap) {
    n = split(list, word)
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && word[j] + 0 < word[j - 1] + 0; j--) {
            swap = word[j]
            word[j] = word[j - 1]
            word[j - 1] = swap
        }
    return n % 2 ? word[(n + 1) / 2] + 0 : n ? (word[n / 2] + word[n / 2 + 1]) / 2 : 0
}

function best(list, least, word, n, i, found) {
    n = split(list, word)
    found = word[1] + 0
    for (i = 2; i <= n; i++)
        if (least ? word[i] + 0 < found : word[i] + 0 > found)
            found = word[i] + 0
    return found
}

function ratio_of(a, b, less) {
    return a <= 0 || b <= 0 ? 0 : less ? a / b : b / a
}

function add(name, value, unit, less) {
    if (!(name in units)) {
        names[++n_names] = name
        units[name] = unit
        less_is_better[name] = less
    }
    values[side, name] = values[side, name] " " value
}

FNR == 1 {
    side = FILENAME ~ /old\.[0-9]+$/ ? "old" : "new"
}

$1 == "figure" {
    plain = 1
    add($2, $3, $4, $4 == "ns" || $4 == "instructions")
}

/^BAR / && / \(want/ && !plain {
    less = $0 ~ /\(want </
    sub(/^BAR /, "")
    sub(/ \(want.*/, "")
    name = $0
    sub(/: [^:]*$/, "", name)
    unit = substr($0, length(name) + 3)
    if (match(unit, /[0-9]+(\.[0-9]+)?/)) {
        value = substr(unit, RSTART, RLENGTH)
        unit = substr(unit, 1, RSTART - 1) substr(unit, RSTART + RLENGTH)
        gsub(/^ +| +$/, "", unit)
        add(name, value, unit, less)
    }
}

END {
    if (!n_names) {
        print "no figures: the bench prints neither \"figure\" nor BAR lines" >"/dev/stderr"
        exit 2
    }
    want = units[names[1]] == "instructions" ? 0.99 : 0.95 # instruction counts do not vary
    wide = 6
    for (i = 1; i <= n_names; i++)
        wide = length(names[i]) > wide ? length(names[i]) : wide
    printf "%-" wide "s %10s %10s %7s %7s\n", "figure", "old", "new", "ratio", "of best"
    for (i = 1; i <= n_names; i++) {
        name = names[i]
        less = less_is_better[name]
        a = median(values["old", name])
        b = median(values["new", name])
        ratio = ratio_of(a, b, less)
        of_best = ratio_of(best(values["old", name], less), best(values["new", name], less), less)
        printf "%-" wide "s %10.2f %10.2f %7.3f %7.3f  %s%s\n", name, a, b, ratio, of_best,
            units[name], ratio ? less ? ", less is better" : "" : ": nothing to compare"
        if (ratio) {
            ratio = ratio > of_best ? ratio : of_best
            worst = counted++ && worst < ratio ? worst : ratio
        }
    }
    if (!counted) {
        print "nothing to compare" >"/dev/stderr"
        exit 2
    }
    ok = worst >= want
    printf "\nBAR against %s: worst ratio %.3f (want >= %g) %s\n", rev, worst, want,
        ok ? "ok" : "short"
    exit !ok
}' "$work"/old.* "$work"/new.*
