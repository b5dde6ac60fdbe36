#!/bin/sh
# header_examples.sh SOURCE CC
#
# Every example in a comment of a public header compiles as strict C11, with all warnings, and as C++
# unless it uses compound literals, which C++ does not have. A header must not lose its examples, and a
# broken one is found: the script breaks one of them and tries again.
set -eu

source=$1
cc=$2
here=$source/tests/install

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# The example may declare something for show, and a test of a value may stand alone.
flags="-Wall -Wextra -Wpedantic -Wconversion -Werror -Wno-unused-variable -Wno-unused-function
    -Wno-unused-but-set-variable -I$here/consumer"

# collect HEADER: writes its programs below $made/NAME, and prints how many there are
collect() {
    name=$(basename "$1" .h)
    rm -rf "${made:?}/$name"
    mkdir "$made/$name"
    awk -v out="$made/$name" -v name="include/pto/$name.h" -f "$here/header_examples.awk" "$1"
}

# compile FILE INCLUDE
compile() {
    # shellcheck disable=SC2086 # the flags are words
    "$cc" -std=c11 $flags -I"$2" -c -o "$made/object" "$1" || return 1
    ! grep -q '(\([a-z0-9_]*_t\|pto_[a-z_]*\)\(\[\]\)\{0,1\}){' "$1" || return 0
    # shellcheck disable=SC2086
    "${CXX:-c++}" -x c++ -std=c++17 $flags -I"$2" -c -o "$made/object" "$1"
}

bad=0
examples=0
for header in "$source"/include/pto/*.h; do
    count=$(collect "$header")
    for file in $(find "$made/$(basename "$header" .h)" -name '*.c' | sort); do
        compile "$file" "$source/include" || bad=1
    done
    examples=$((examples + count))
done
echo "$examples comments with examples"
# There were eleven when this was written. An example that is no longer found is not checked.
[ $examples -ge 11 ] || {
    echo "too few: were examples indented by less than four columns?"
    bad=1
}

# The check can fail: an example that names a field that does not exist.
sed 's/\.opcode = /.opcoed = /' "$source/include/pto/work.h" >"$made/broken.h"
collect "$made/broken.h" >/dev/null
if compile "$made/broken/1.c" "$source/include" >"$made/said" 2>&1; then
    echo "a broken example was accepted"
    bad=1
fi
grep -q 'include/pto/broken.h:[0-9]*:.*opcoed' "$made/said" || {
    echo "the message does not name the line of the header:"
    cat "$made/said"
    bad=1
}
exit $bad
