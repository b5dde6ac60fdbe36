#!/bin/sh
# includes.sh [--owners] [ROOT]
#
# Checks the directions of includes in ROOT/src (default: this repository), also indirect ones: a
# header that includes a forbidden header is itself forbidden. Each violation is reported with file,
# line and rule; the exit status is 1 if there is any.
#
# --owners: lists functions that are declared in a header of another name than their .c file, and files
# whose functions are declared in several headers. The list is informative: the exit status is 0.
set -u

# A folder or file of src, and what it may include: whole folders of src or single headers. `!<x.h>`
# forbids a system header; all others, and <pto/...>, are allowed. The longest matching name is the
# rule of a file.
rules='
base              base
tensor            base tensor
window            base tensor window !<pthread.h>
device            base tensor device
device/copy.c     base tensor device op
device/transfer.c base tensor device op
device/sim        base tensor device op
op                base tensor device op
device/cuda       base tensor device op
observe           base tensor window observe
orchestrator      base tensor window device op observe orchestrator
orchestrator/map  base tensor window device op observe orchestrator/map orchestrator/ring
orchestrator/ring base tensor window device op observe orchestrator/map orchestrator/ring
scheduler         base tensor window observe/log.h scheduler
scheduler/step.h  base tensor window observe/log.h scheduler !<pthread.h>
worker            base tensor window device op observe/log.h observe/device_clock.h scheduler worker
'

owners=
if [ "${1:-}" = --owners ]; then
    owners=1
    shift
fi
root=${1:-$(dirname -- "$0")/..}
cd "$root" || exit 2
# shellcheck disable=SC2046 # names of ours have no spaces
set -- $(find src -name '*.[ch]' | LC_ALL=C sort)
[ $# -gt 0 ] || {
    echo "includes.sh: there are no sources in $root/src" >&2
    exit 2
}

# shellcheck disable=SC2016 # $0 is for awk
find_includes='
BEGIN {
    n_rows = split(rules, line, "\n")
    for (i = 1; i <= n_rows; i++)
        if (split(line[i], word) > 0) {
            may[word[1]] = line[i]
            sub(/^[^ ]+ */, "", may[word[1]])
        }
    for (i = 1; i < ARGC; i++) {
        file[i] = substr(ARGV[i], 5) # without src/
        is_there[file[i]] = 1
    }
}

function folder_of(name) {
    return name ~ /\// ? substr(name, 1, match(name, /\/[^\/]*$/)) : ""
}

FNR == 1 { name = substr(FILENAME, 5) }

/^[ \t]*#[ \t]*include[ \t]*["<]/ {
    quoted = $0 ~ /^[^<]*"/
    match($0, /["<][^">]*/)
    target = substr($0, RSTART + 1, RLENGTH - 1)
    if (!quoted)
        target = "<" target ">"
    else if (!(target in is_there) && ((folder_of(name) target) in is_there))
        target = folder_of(name) target
    n_includes[name]++
    included[name, n_includes[name]] = target
    at[name, n_includes[name]] = FNR
}

# The longest matching name in the table; "" if there is none.
function rule_of(name, row, best) {
    best = ""
    for (row in may)
        if ((name == row || index(name, row "/") == 1) && length(row) > length(best))
            best = row
    return best
}

function allows(rule, target, word, n, i, entry) {
    n = split(may[rule], word)
    for (i = 1; i <= n; i++) {
        entry = word[i]
        if (entry == "!" target)
            return 0
        if (target == entry || index(target, entry "/") == 1)
            return 1
    }
    return target ~ /^</
}

function report(name, line, text) {
    printf "src/%s:%d: %s\n", name, line, text
    bad = 1
}

# Everything that a file includes, directly or not, nearest first. A header with the same rule is not
# followed: its violations are reported for that header itself.
function check(name, rule, reached, queue, way, line, head, tail, from, i, target) {
    rule = rule_of(name)
    if (rule == "") {
        report(name, 1, "no rule for this file: see the table in cmake/includes.sh")
        return
    }
    queue[tail = 1] = name
    for (head = 1; head <= tail; head++) {
        from = queue[head]
        for (i = 1; i <= n_includes[from]; i++) {
            target = included[from, i]
            if (target in reached)
                continue
            reached[target] = 1
            line[target] = from == name ? at[from, i] : line[from]
            way[target] = from == name ? "" : way[from] ", through " from
            if (!allows(rule, target))
                report(name, line[target], rule " must not include " target way[target] \
                    " (the rule: " rule ": " may[rule] ")")
            else if (!(target in is_there) || rule_of(target) != rule)
                queue[++tail] = target
        }
    }
}

END {
    for (i = 1; i < ARGC; i++) {
        check(file[i])
        # x.c has one header x.h, in any folder of its part of src.
        if (file[i] ~ /\.h$/) {
            base = file[i]
            sub(/^.*\//, "", base)
            part = file[i]
            sub(/\/.*/, "", part)
            headers[part, base] = headers[part, base] " " file[i]
        }
    }
    for (i = 1; i < ARGC; i++) {
        if (file[i] !~ /\.c$/)
            continue
        base = file[i]
        sub(/^.*\//, "", base)
        sub(/c$/, "h", base)
        part = file[i]
        sub(/\/.*/, "", part)
        if (split(headers[part, base], word) > 1)
            report(file[i], 1, "has several headers of its name:" headers[part, base])
    }
    exit bad
}'

# Roughly: a line that begins at the margin and has ptoi_NAME( is a declaration if the next ; comes
# before the next {, else a definition. Static ones do not count.
# shellcheck disable=SC2016
find_owners='
function stem(name) {
    sub(/\.[ch]$/, "", name)
    return name
}

FNR == 1 { pending = "" }

/^[A-Za-z].*ptoi_[a-z0-9_]*\(/ && !/^(static|typedef|return|#)/ && !/=/ {
    match($0, /ptoi_[a-z0-9_]*\(/)
    pending = substr($0, RSTART, RLENGTH - 1)
}

pending != "" && /[;{]/ {
    if ($0 ~ /^[^;]*\{/)
        defined[pending] = FILENAME
    else if (FILENAME ~ /\.h$/)
        declared[++n] = FILENAME " " pending
    pending = ""
}

END {
    for (i = 1; i <= n; i++) {
        split(declared[i], word)
        header = word[1]
        owner = defined[word[2]]
        if (owner == "" || owner ~ /\.h$/)
            continue
        if (stem(owner) != stem(header))
            print header ": " word[2] " is defined in " owner
        if (!((owner, header) in seen)) {
            seen[owner, header] = 1
            by[owner] = by[owner] " " header
            if (++count[owner] == 2)
                several[++m] = owner
        }
    }
    for (i = 1; i <= m; i++)
        print several[i] ": declared by several headers:" by[several[i]]
}'

if [ -n "$owners" ]; then
    awk "$find_owners" "$@"
else
    awk -v rules="$rules" "$find_includes" "$@"
fi
