#!/bin/sh
# completion.sh SOURCE PTO
#
# Completion offers what the command PTO takes, in bash and in those of zsh and fish that are here.
set -u

source=$1
PATH=$(dirname "$2"):$PATH
export PATH
bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
touch some.file

# ask SHELL WORD...: what is offered for the last word, one a line
ask() {
    shell=$1
    shift
    case $shell in
    bash)
        # shellcheck disable=SC2016 # for that shell
        bash --norc -c '. "$0"
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            _pto
            printf "%s\n" "${COMPREPLY[@]}"' "$source/tools/completion/pto.bash" "$@"
        ;;
    zsh)
        # The functions of its completion are taken by ones that print.
        # shellcheck disable=SC2016
        zsh -f -c 'compadd() { print -l -- "$@" }
            _describe() { print -l -- "${(@)${(@P)2}%%:*}" }
            _files() { print -l -- * }
            _pids() { print -l -- 1 }
            file=$1
            shift
            words=("$@") CURRENT=$# PREFIX=${@[-1]}
            . $file' zsh "$source/tools/completion/_pto" "$@"
        ;;
    fish)
        fish --no-config -c "source $source/tools/completion/pto.fish; complete -C '$*'" |
            sed 's/\t.*//'
        ;;
    esac
}

# offers SHELL WHAT WORD...: WHAT is offered
offers() {
    said=$(ask "$1" "$3" "$4" "${5-}" ${6+"$6"} ${7+"$7"} 2>&1 </dev/null)
    printf '%s\n' "$said" | grep -qxF -- "$2" && return
    shell=$1
    what=$2
    shift 2
    echo "$shell: '$*' is not completed to '$what' but to: $said"
    bad=1
}

shells=
for shell in bash zsh fish; do
    command -v "$shell" >/dev/null 2>&1 || continue
    shells="$shells $shell"
    said=$(ask "$shell" pto '' 2>&1 </dev/null)
    for word in $(pto --help | sed -n 's/^  \([a-z][a-z0-9_-]*\)  .*/\1/p'); do
        printf '%s\n' "$said" | grep -qxF -- "$word" || {
            echo "$shell: 'pto ' does not offer '$word' but: $said"
            bad=1
        }
    done
    offers "$shell" vector pto run v
    offers "$shell" --tile pto run vector --ti
    offers "$shell" --workers pto run cholesky --w
    offers "$shell" some.file pto run vector some
    for place in inline thread process gpu; do
        offers "$shell" $place pto run vector --place ''
    done
done
[ $bad -eq 0 ] && echo "completion in$shells"
exit $bad
