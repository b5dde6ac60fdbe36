#!/bin/sh
# manifest.sh plan STAGE DESTDIR PREFIX     (writes the plan to stdout)
# manifest.sh record DESTDIR PREFIX PLAN
# manifest.sh remove DESTDIR PREFIX
#
# Records what `./dev install` installed, so that it can be removed: all files, and the folders that
# did not exist before. The list is part of the installation, in share/pto/manifest. Its lines are
# paths below DESTDIR; folders end with a slash.
#
# plan reads a staged installation in STAGE before the real one. record writes the list, and removes
# files of an older installation that the new one does not have.
set -eu

action=$1
shift

# list_of DESTDIR PREFIX
list_of() {
    printf '%s%s/share/pto/manifest\n' "$1" "${2%/}"
}

# take_away DESTDIR LIST: removes files, then empty folders, innermost first
take_away() {
    grep -v '/$' "$2" | while IFS= read -r path; do
        printf '%s\0' "$1$path"
    done | xargs -0 -r rm -f --
    grep '/$' "$2" | sort -r | while IFS= read -r path; do
        [ ! -d "$1$path" ] || rmdir -- "$1$path" 2>/dev/null || true
    done
}

case $action in
plan)
    stage=$1
    destdir=$2
    prefix=$3
    list=$(list_of "" "$prefix")
    mkdir -p "$stage$(dirname -- "$list")"
    : >"$stage$list"
    (cd "$stage" && find . ! -type d | sed 's/^\.//')
    (cd "$stage" && find . -type d ! -name . | sed 's/^\.//; s,$,/,') |
        while IFS= read -r path; do
            [ -d "$destdir$path" ] || printf '%s\n' "$path"
        done
    ;;
record)
    destdir=$1
    plan=$3
    list=$(list_of "$destdir" "$2")
    mkdir -p "$(dirname -- "$list")"
    if [ -e "$list" ]; then
        # Folders that the older installation created are still ours.
        old=$(mktemp)
        new=$(mktemp)
        { cat "$plan"; grep '/$' "$list" || true; } | sort -u >"$new"
        grep -vxFf "$new" "$list" >"$old" || true
        take_away "$destdir" "$old"
        cat "$new" >"$list"
        rm -f "$old" "$new"
    else
        sort -u "$plan" >"$list"
    fi
    chmod 644 "$list"
    ;;
remove)
    destdir=$1
    prefix=$2
    list=$(list_of "$destdir" "$prefix")
    [ -r "$list" ] || {
        echo "there is no installation in $destdir$prefix: no $list"
        exit 1
    }
    copy=$(mktemp)
    trap 'rm -f "$copy"' EXIT
    cat "$list" >"$copy"
    take_away "$destdir" "$copy"
    ;;
esac
