#!/bin/sh
# guide.sh STAGE SOURCE CC EXAMPLES [--update]
#
# The guide is correct. Each block of C in docs/guide.md is marked: `c program` is a whole
# program, `c piece` the body of a function in the small world of consumer/guide.h. All are compiled
# against the installation in STAGE/prefix and run. The output must be the
# block of `text` that follows, or empty if none follows; a line `...` stands for any lines. A block
# of `text overlap` is part of the output of the example of that name in EXAMPLES. --update replaces
# the blocks in the guide by the output.
set -eu

stage=$1
source=$2
cc=$3
examples=$4
update=${5:-}

guide=$source/docs/guide.md
PKG_CONFIG_PATH=$(dirname "$(find "$stage/prefix" -name pto.pc)")
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(pkg-config --variable=libdir pto)
export LD_LIBRARY_PATH
out=$stage/guide
rm -rf "$out"
mkdir -p "$out"

# Every chapter is in the contents.
sed -n 's/^## //p' "$guide" | while read -r chapter; do
    grep -q "[0-9]\. \[${chapter%%:*}\](#" "$guide" || {
        echo "guide.md: the contents lack '$chapter'"
        exit 1
    }
done

# NUMBER.c and NUMBER.expected for each block; every piece counts its lines from 1, so that what
# it prints about itself does not change with the text around it.
awk -v out="$out" '
    function refuse(why) {
        printf "guide.md:%d: %s\n", NR, why
        failed = 1
        exit 1
    }
    inside && $0 == "```" {
        if (inside == "piece")
            print "    return PTO_OK;\n}" > file
        inside = ""
        next
    }
    inside { print > file; next }
    $0 == "```c program" || $0 == "```c piece" {
        inside = substr($0, 6)
        file = out "/" ++count ".c"
        printf "" > (out "/" count ".expected")
        answered = 0
        if (inside == "piece") {
            print "#include \"guide.h\"" > file
            print "static pto_status piece(void)\n{" > file
            print "#line 1 \"piece.c\"" > file
        } else {
            print "#line 1 \"program.c\"" > file
        }
        next
    }
    $0 == "```text" {
        if (!count || answered++)
            refuse("whose output is this?")
        inside = "text"
        file = out "/" count ".expected"
        next
    }
    $0 == "```text overlap" {
        inside = "drawing"
        file = out "/drawing"
        next
    }
    /^```c/ { refuse("say whether it is a program or a piece") }
    /^```/ {
        inside = "other"
        file = "/dev/null"
    }
    END {
        if (!failed && inside)
            refuse("the last block has no end")
        if (!failed && !count)
            refuse("no block of C")
    }' "$guide"

# same EXPECTED PRINTED: as diff, but for lines of `...`
same() {
    awk '
        NR == FNR { want[++n] = $0; next }
        { while (want[at + 1] == "...") { at++; any = 1 } }
        $0 == want[at + 1] { at++; any = 0; next }
        !any { exit bad = 1 }
        END {
            while (want[at + 1] == "...")
                at++
            exit bad || at != n
        }' "$1" "$2" || diff -u "$1" "$2"
}

bad=0
ran=0
for file in "$out"/*.c; do
    base=${file%.c}
    # shellcheck disable=SC2046 # pkg-config prints words
    "$cc" -std=c11 -Wall -Wextra -Werror -Wno-unused-function -I"$source/tests/install/consumer" \
        "$file" -o "$base" $(pkg-config --cflags --libs pto) -lm -pthread
    timeout 60 "$base" >"$base.printed" || {
        echo "block $(basename "$base") ends with status $?:"
        cat "$base.printed"
        bad=1
    }
    [ "$update" = --update ] || same "$base.expected" "$base.printed" || bad=1
    ran=$((ran + 1))
done

"$examples/overlap" >"$out/tour"
lines=$(wc -l <"$out/drawing")
[ "$lines" -gt 5 ]
at=$(grep -n -m 1 -xF "$(head -n 1 "$out/drawing")" "$out/tour" | cut -d: -f1)
tail -n "+$at" "$out/tour" | head -n "$lines" | diff -u "$out/drawing" - || bad=1
[ $bad -eq 0 ] || exit 1
if [ "$update" = --update ]; then
    # Blocks with a line of `...` are left as they are.
    awk -v out="$out" '
        $0 == "```c program" || $0 == "```c piece" { count++ }
        inside && $0 == "```" {
            if (!any) {
                text = ""
                while ((getline line < (out "/" count ".printed")) > 0)
                    text = text line "\n"
            }
            printf "%s", text
            inside = 0
        }
        inside { text = text $0 "\n"; any = any || $0 == "..."; next }
        { print }
        $0 == "```text" { inside = 1; any = 0; text = "" }' "$guide" >"$out/guide.md"
    cp "$out/guide.md" "$guide"
fi
echo "the guide is true: $ran blocks of C"
