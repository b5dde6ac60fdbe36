#!/bin/sh
# one-header.sh SRC FILE: prints a header of SRC as one file for a program that has only the public headers:
# includes of "..." are replaced by the files, each once, and of `#ifdef __CUDA_ARCH__` only the part for the
# device is left.
set -eu

awk -v src="$1" -v first="$2" '
function fail(text)
{
    print "one-header.sh: " text > "/dev/stderr"
    exit 1
}
function print_file(name, path, line, depth, kept)
{
    if (name in done)
        return
    done[name] = 1
    path = src "/" name
    depth = 0 # of conditions in a branch on __CUDA_ARCH__
    kept = 1
    while ((status = (getline line < path)) > 0) {
        if (line ~ /^#(ifdef|if defined)[ (]*__CUDA_ARCH__/ && !depth) {
            depth = 1
            kept = 1
        } else if (depth == 1 && line ~ /^#else/) {
            kept = 0
        } else if (depth == 1 && line ~ /^#endif/) {
            depth = 0
            kept = 1
        } else {
            if (depth && line ~ /^#if/)
                depth++
            else if (depth && line ~ /^#endif/)
                depth--
            if (!kept)
                continue
            if (match(line, /^#include "[^"]+"/))
                print_file(substr(line, 11, RLENGTH - 11))
            else
                print line
        }
    }
    if (status < 0)
        fail("cannot read " path)
    close(path)
}
BEGIN {
    print "/* Made of " first " and what it includes, by cmake/one-header.sh. */"
    print_file(first)
}'
