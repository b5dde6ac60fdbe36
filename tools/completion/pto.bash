# pto.bash - completion of the pto command for bash. It asks the command itself what it takes, so
# there is nothing here to keep in step.

# _pto_help WORD...: what `pto WORD... --help` says
_pto_help() {
    "${_pto_command:-pto}" "$@" --help 2>/dev/null </dev/null
}

_pto() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local _pto_command=${COMP_WORDS[0]} path=() choices='' i help
    COMPREPLY=()

    # The words before the first option say whom to ask: pto run vector.
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -* ]] && break
        path+=("${COMP_WORDS[i]}")
    done

    case $previous in
    --place) choices='inline thread process gpu' ;;
    --rings) choices='default tight' ;;
    esac
    if [[ -z $choices ]]; then
        # More than two words are files and the like, of the command that the first ones name.
        help=$(_pto_help "${path[@]:0:2}") || help=$(_pto_help "${path[@]:0:1}") || help=''
        if [[ $current == -* ]]; then
            choices=$(grep -oE -- '--[a-z][a-z0-9-]*' <<<"$help" | sort -u)
        elif [[ ${#path[@]} -lt 2 ]]; then
            # They are listed, or each has its line of usage.
            choices=$(sed -n -e 's/^  \([a-z][a-z0-9_-]*\)  .*/\1/p' \
                -e "s/^\(usage:\| *\) pto ${path[*]} \([a-z][a-z0-9_-]*\) .*/\2/p" <<<"$help")
        fi
        case ${path[0]-} in
        top | doctor) choices+=$'\n'$(cd /proc && printf '%s\n' [0-9]*) ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
    # Where it takes no word of ours, a file.
    if [[ ${#COMPREPLY[@]} -eq 0 && $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
}

complete -F _pto pto
