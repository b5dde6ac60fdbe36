#!/bin/sh
# make.sh OUT VERSION DATE [PTO]
#
# Writes all manual pages below OUT: man3/ from the public headers, errors.txt, errors_mpi.txt and examples/; and, if the
# pto command is given, man1/ and man7/. The page of a subcommand, `pto WORD`, comes from docs/man/pto-WORD.1. If there is no
# such file, it comes from `pto WORD --help`. So a new subcommand has a page from the start, and the
# file can be added later. In these files a line of the following form is replaced by output of the
# command:
#
#     @COMMANDS@           the subcommands of pto, each with its help
#     @USAGE run@          the usage lines of `pto run --help`
#     @HELP run@           everything after them: paragraphs, options, names
#     @EACH run@           for each name that `pto run --help` lists, its own options
#     @VARIABLES@          the environment variables, as `pto options` lists them
#     @SEE_ALSO@           the pages of all subcommands, and of the library
set -eu

out=$1
version=$2
date=$3
pto=${4:-}
here=$(dirname -- "$(readlink -f -- "$0")")

rm -rf "$out/man1" "$out/man3" "$out/man7"
mkdir -p "$out/man3"
awk -v out="$out" -v version="$version" -v date="$date" -v errors="$here/errors.txt $here/errors_mpi.txt" \
    -v examples="$(echo "$here"/examples/*.c)" -f "$here/text.awk" \
    -f "$here/headers.awk" -f "$here/errors.awk" -f "$here/pages.awk" \
    "$here"/../../include/pto/*.h "$here"/../../mpi/include/pto/*.h >"$out/list" 2>"$out/complaints" || true
# A missing comment, error or example fails the tests, but not the build.
cat "$out/complaints" >&2
[ -s "$out/list" ]
[ -n "$pto" ] || exit 0

mkdir -p "$out/man1" "$out/man7"
# ask WORD...: output of the command, with an empty environment
ask() {
    env -i "$pto" "$@" 2>/dev/null </dev/null || true
}

# roff WHAT: converts help on stdin to roff
roff() {
    awk -v what="$1" -f "$here/text.awk" -f "$here/help.awk"
}

# names: the names that a help on stdin lists
names() {
    sed -n 's/^  \([a-z][a-z0-9_-]*\)  .*/\1/p'
}

each() {
    ask "$1" --help >"$out/common"
    for name in $(names <"$out/common"); do
        ask "$1" "$name" --help >"$out/own"
        [ -s "$out/own" ] || continue
        echo ".SS pto $1 $name"
        grep -vxFf "$out/common" "$out/own" | roff help
    done
    rm -f "$out/common" "$out/own"
}

see_also() {
    {
        for word in $words; do
            echo "pto\\-$word (1)"
        done
        echo "pto (1)"
        echo "pto (3)"
        echo "pto (7)"
    } | grep -vx "$1" | sort | sed 's/^/.BR /; $!s/$/,/'
}

# argument LINE: the arguments of @WORD arguments@
argument() {
    printf '%s\n' "$1" | sed 's/^@[A-Z]* //; s/@$//'
}

# expand SELF: a page with the lines above replaced
# shellcheck disable=SC2046 # words
expand() {
    while IFS= read -r line; do
        case $line in
        @COMMANDS@) ask --help | roff list ;;
        @USAGE\ *) ask $(argument "$line") --help | roff usage ;;
        @HELP\ *) ask $(argument "$line") --help | roff help ;;
        @EACH\ *) each "$(argument "$line")" ;;
        @VARIABLES@) ask options | roff variables ;;
        @SEE_ALSO@) see_also "$1" ;;
        *) printf '%s\n' "$line" ;;
        esac
    done | sed "s/@DATE@/$date/; s/@VERSION@/$version/"
}

words=$(ask --help | names)
[ -n "$words" ]
expand "pto (1)" <"$here/pto.1" >"$out/man1/pto.1"
expand "pto (7)" <"$here/pto.7" >"$out/man7/pto.7"
for word in $words; do
    page=$here/pto-$word.1
    if [ ! -e "$page" ]; then
        page=$out/made
        summary=$(ask --help | sed -n "s/^  $word  *//p")
        {
            printf '.TH PTO\\-%s 1 @DATE@ "PTO Runtime @VERSION@" "PTO Runtime Manual"\n' \
                "$(echo "$word" | tr '[:lower:]' '[:upper:]')"
            printf '.SH NAME\npto\\-%s \\- %s\n' "$word" "$summary"
            printf '.SH SYNOPSIS\n@USAGE %s@\n.SH DESCRIPTION\n@HELP %s@\n' "$word" "$word"
            printf '@EACH %s@\n.SH SEE ALSO\n@SEE_ALSO@\n' "$word"
        } >"$page"
    fi
    expand "pto\\\\-$word (1)" <"$page" >"$out/man1/pto-$word.1"
done
rm -f "$out/made"
