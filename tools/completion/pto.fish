# pto.fish - completion of the pto command for fish. It asks the command itself what it takes, so
# there is nothing here to keep in step.

function __pto_choices
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    set -l path
    # The words before the first option say whom to ask: pto run vector.
    for token in $tokens[2..-1]
        string match -q -- '-*' $token; and break
        set -a path $token
    end
    switch "$tokens[-1]"
        case --place
            printf '%s\n' inline thread process gpu
            return
        case --rings
            printf '%s\n' default tight
            return
    end
    # More than two words are files and the like, of the command that the first ones name.
    set -l first $path
    set -q path[3]; and set first $path[1..2]
    set -l help ($tokens[1] $first --help 2>/dev/null </dev/null)
    or set help ($tokens[1] $path[1] --help 2>/dev/null </dev/null)
    or return
    for line in $help
        if string match -q -- '-*' "$current"
            string replace -rf -- '^  (--[a-z][a-z0-9-]*)(?: [A-Z]+)? *(.*)$' '$1\t$2' $line
        else if not set -q path[2]
            # They are listed, or each has its line of usage.
            string replace -rf -- '^  ([a-z][a-z0-9_-]*)  +(.*)$' '$1\t$2' $line
            or string replace -rf -- "^(?:usage:| +) pto $path ([a-z][a-z0-9_-]*) .*?(?:  +(.*))?\$" '$1\t$2' $line
        end
    end
    if contains -- "$path[1]" top doctor; and not string match -q -- '-*' "$current"
        __fish_complete_pids
    end
end

complete -c pto -a '(__pto_choices)'
# No files where a word of ours is what can stand.
complete -c pto -f -n 'count (__pto_choices) >/dev/null'
