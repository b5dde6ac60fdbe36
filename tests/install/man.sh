#!/bin/sh
# man.sh SOURCE MAN PTO
#
# The manual pages in MAN are complete: each public function, function-like macro and word of the
# command PTO has its own, with all of its options; references are valid; formatters report no
# errors. And the generator detects missing comments.
set -eu

source=$1
man=$2
pto=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
complain() {
    echo "$*"
    bad=1
}

# ---- the library ----------------------------------------------------------------------------

# Found in another way than the generator finds them.
cat "$source"/include/pto/*.h "$source"/mpi/include/pto/*.h >"$work/headers"
{
    sed -n 's/^PTO_API .*[ *]\(pto_[a-z0-9_]*\)(.*/\1/p' "$work/headers"
    sed -n 's/^static inline .*[ *]\(pto_[a-z0-9_]*\)(.*/\1/p' "$work/headers"
    sed -n 's/^# *define \([Pp][Tt][Oo]_[A-Za-z0-9_]*\)(.*/\1/p' "$work/headers" |
        grep -v -e '_MAP$' -e '_ENUM$' -e '^PTO_PRINTF$'
} | grep -v '_$' | sort -u >"$work/functions"
[ "$(wc -l <"$work/functions")" -gt 100 ]
# pto_fail returns the status that it is given.
tr '\n' ' ' <"$work/headers" | grep -o 'PTO_API [A-Z_ ]*pto_status  *pto_[a-z0-9_]*(' |
    sed 's/.*[ *]\(pto_[a-z0-9_]*\)($/\1/' | grep -vx pto_fail | sort -u >"$work/fallible"
[ "$(wc -l <"$work/fallible")" -gt 80 ]
awk -v man="$man/" '
    FNR == NR {
        fallible[$1] = 1
        next
    }
    # read_page FILE: its sections into text[]; a link leads on
    function read_page(file,    line, title, status) {
        split("", text)
        title = ""
        while ((status = (getline line < file)) > 0) {
            if (line ~ /^\.so /) {
                close(file)
                return read_page(man substr(line, 5))
            }
            if (line ~ /^\.SH /)
                title = substr(line, 5)
            else
                text[title] = text[title] line "\n"
        }
        close(file)
        return status == 0
    }
    function complain(why) {
        print name ": " why
        bad = 1
    }
    {
        name = $1
        if (!read_page(man "man3/" name ".3")) {
            complain("no page")
            next
        }
        n = split("NAME SYNOPSIS DESCRIPTION RETURN_VALUE ERRORS EXAMPLE SEE_ALSO", titles, " ")
        for (i = 1; i <= n; i++) {
            sub(/_/, " ", titles[i])
            if (text[titles[i]] !~ /[a-z]/)
                complain("nothing under " titles[i])
        }
        # A function that returns a status says when it returns which error.
        if (name in fallible && text["ERRORS"] !~ /PTO_/)
            complain("returns a pto_status, and its page names no error: see docs/man/errors.txt")
        if (("\n" text["NAME"]) !~ ("\n" name ",?\n"))
            complain("its page does not name it")
        if (text["SYNOPSIS"] !~ ("[ *B]" name "\\("))
            complain("its page does not show how it is called")
        # Only these take any number of arguments.
        if (name !~ /^(pto_submit|PTO_RANGE|pto_mpi_(submit|submit_on|broadcast|only|only_begin))$/ && text["SYNOPSIS"] !~ ("pto_[a-z]+ " name "\\(") &&
            text["SYNOPSIS"] ~ (name "\\([^;]*, \\\\&\\.\\.\\.\\)\\\\fR\n"))
            complain("its page does not say what its arguments are")
        if (text["NOTES"] ~ /\\-\\-\\-/)
            complain("the title of a section is under NOTES")
    }
    END { exit bad }' "$work/fallible" "$work/functions" || bad=1

# The codes that the pages name exist.
sed -n 's/^    X(\([A-Z_]*\), [0-9]*,.*/PTO_\1/p' "$source/include/pto/status.h" | sort >"$work/codes"
[ "$(wc -l <"$work/codes")" -gt 50 ]
for page in "$man"/man3/*.3; do
    sed -n '/^\.SH ERRORS/,/^\.SH /p' "$page" | grep -A 1 '^\.TP' | grep -o 'PTO_[A-Z_]*' || true
done | sort -u >"$work/named"
[ "$(wc -l <"$work/named")" -gt 40 ]
comm -13 "$work/codes" "$work/named" >"$work/unknown"
[ ! -s "$work/unknown" ] || complain "there is no such status: $(tr '\n' ' ' <"$work/unknown")"

# Mistakes in errors.txt, and what it lacks, are found. A macro has the errors of its function.
refused() { # WORDS SED-SCRIPT
    sed "$2" "$source/docs/man/errors.txt" >"$work/errors.txt"
    mkdir -p "$work/broken/man3"
    if awk -v out="$work/broken" -v version=1 -v date=2001-01-01 -v errors="$work/errors.txt $source/docs/man/errors_mpi.txt" \
        -v examples="$(echo "$source"/docs/man/examples/*.c)" -f "$source/docs/man/text.awk" \
        -f "$source/docs/man/headers.awk" -f "$source/docs/man/errors.awk" -f "$source/docs/man/pages.awk" \
        "$source"/include/pto/*.h "$source"/mpi/include/pto/*.h \
        >"$work/said" 2>&1; then
        complain "errors.txt is taken after: $2"
    fi
    grep -q -- "$1" "$work/said" || complain "no '$1': $(cat "$work/said")"
}
refused 'there is no status PTO_BAD_DIMM' 's/PTO_BAD_DIM /PTO_BAD_DIMM /'
refused 'there is no pto_tensor_slize' 's/^pto_tensor_slice:/pto_tensor_slize:/'
refused 'pto_stats: which errors, and when' '/^pto_stats:/,/^$/d'
refused 'pto_submit: which errors, and when' 's/^pto_submit_task_at pto_submit:/pto_submit_task_at:/'
refused 'pto_last_task: what does it return' '/^pto_last_task:/,/^$/d'

[ ! -s "$man/complaints" ] || complain "$(cat "$man/complaints")"

# Types that have a definition.
sed -n 's/^} \(pto_[a-z0-9_]*\);.*/\1/p' "$work/headers" | while read -r name; do
    [ -s "$man/man3/$name.3" ] || echo "$name has no page"
done >"$work/types"
[ ! -s "$work/types" ] || complain "$(cat "$work/types")"

# A header with a hole in it is refused, with the place.
mkdir "$work/out" "$work/out/man3"
printf '/* hole.h - a test. */\n\n/* Says so. */\nPTO_API int pto_said(void);\n\nPTO_API int pto_mute(int x);\n' \
    >"$work/hole.h"
if awk -v out="$work/out" -v version=1 -v date=2001-01-01 -f "$source/docs/man/text.awk" \
    -f "$source/docs/man/headers.awk" -f "$source/docs/man/errors.awk" -f "$source/docs/man/pages.awk" "$work/hole.h" >"$work/said" 2>&1; then
    complain "a function without a comment is taken"
fi
grep -q 'hole.h:6: pto_mute has no comment' "$work/said" || complain "$(cat "$work/said")"

# ---- the command ----------------------------------------------------------------------------

# options_of FILE: the long options that stand in it
options_of() {
    sed 's/\\-/-/g' "$1" | grep -o -e '--[a-z][a-z0-9-]*' | sort -u
}

env -i "$pto" --help | sed -n 's/^  \([a-z][a-z0-9_-]*\)  .*/\1/p' >"$work/words"
[ -s "$work/words" ]
while read -r word; do
    page=$man/man1/pto-$word.1
    [ -s "$page" ] || { complain "pto $word has no page"; continue; }
    grep -q "^\.B $word\$" "$man/man1/pto.1" || complain "pto(1) does not name $word"
    env -i "$pto" "$word" --help >"$work/help" 2>/dev/null </dev/null || continue
    options_of "$work/help" >"$work/taken"
    sed -n 's/^  \([a-z][a-z0-9_-]*\)  .*/\1/p' "$work/help" | while read -r name; do
        env -i "$pto" "$word" "$name" --help 2>/dev/null </dev/null >"$work/own" || continue
        options_of "$work/own"
    done >>"$work/taken"
    sort -u "$work/taken" -o "$work/taken"
    options_of "$page" >"$work/shown"
    comm -3 "$work/taken" "$work/shown" >"$work/differ"
    [ ! -s "$work/differ" ] ||
        complain "pto-$word(1) and pto $word --help differ in: $(tr -s '\t\n' ' ' <"$work/differ")"
done <"$work/words"
for page in "$source"/docs/man/pto-*.1; do
    word=$(basename "$page" .1)
    grep -qxF -- "${word#pto-}" "$work/words" || complain "$page: there is no such word"
done

sed -n 's/^ *{"\(PTO_[A-Z_]*\)".*/\1/p' "$source"/src/base/option.c >"$work/variables"
[ -s "$work/variables" ]
while read -r name; do
    grep -q "^\.BR $name " "$man/man7/pto.7" || complain "pto(7) does not name $name"
done <"$work/variables"

# ---- all of them ----------------------------------------------------------------------------

grep -hE '^\.BR [^ ]+ \([137]\),?$' "$man"/man*/* | sed 's/^\.BR //; s/,$//; s/\\%//; s/\\-/-/g' |
    tr -d '()' | sort -u | while read -r name section; do
    [ -s "$man/man$section/$name.$section" ] || echo "some page refers to $name($section)"
done >"$work/dangling"
[ ! -s "$work/dangling" ] || complain "$(cat "$work/dangling")"

checker=none
if command -v mandoc >/dev/null 2>&1; then
    checker=mandoc
    # shellcheck disable=SC2046 # names of ours have no blanks
    mandoc -T lint -W style $(grep -L '^\.so ' "$man"/man*/*) >"$work/lint" 2>&1 || true
elif command -v groff >/dev/null 2>&1; then
    checker=groff
    # shellcheck disable=SC2046
    groff -man -ww -z $(grep -L '^\.so ' "$man"/man*/*) >"$work/lint" 2>&1 || true
fi
[ ! -s "$work/lint" ] || complain "$(head -n 20 "$work/lint")"
[ $bad -eq 0 ] &&
    echo "$(wc -l <"$work/functions") functions, $(wc -l <"$work/words") words; checked by $checker"
exit $bad
