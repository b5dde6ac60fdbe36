# help.awk - converts the help of a command to roff.
#
#     what=usage      the usage lines
#     what=help       everything after them
#     what=list       only the names: lines with two blanks, a name and its help
#     what=variables  the table of `pto options`

# Prints text in lines of at most 76 columns. A line must not start with a control character.
function fill(s,    n, list, i, line) {
    n = split(s, list, " ")
    line = ""
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + 1 + length(list[i]) > 76) {
            print line
            line = ""
        }
        if (line == "" && list[i] ~ /^\./)
            list[i] = "\\&" list[i]
        line = line (line == "" ? "" : " ") list[i]
    }
    if (line != "")
        print line
}

function flush() {
    if (term != "") {
        print ".TP\n" term
        fill(escape(text))
    } else if (text != "") {
        if (begun)
            print ".PP"
        fill(escape(text))
    }
    begun = begun || term text != ""
    term = text = ""
}

# A term in bold and its value in italics: --workers N
function bold(s,    at) {
    at = index(s, " ")
    if (!at)
        return ".B " escape(s)
    return ".BI " escape(substr(s, 1, at - 1)) " \" " escape(substr(s, at + 1)) "\""
}

# A line with an option or a name, then two or more blanks, then its help.
function item(line, plain,    at) {
    line = substr(line, 3)
    at = match(line, /  +/)
    flush()
    term = at ? substr(line, 1, at - 1) : line
    term = plain ? ".B " escape(term) : bold(term)
    text = at ? substr(line, RSTART + RLENGTH) : ""
}

/^usage:/ { usage = 1 }
usage && !/^(usage:| +[a-z])/ { usage = 0 }
usage && what == "usage" {
    line = $0
    sub(/^usage:/, "      ", line)
    sub(/^ +/, "", line)
    sub(/  +.*$/, "", line)
    if (line ~ /^pto/) {
        if (shown++)
            print ".br"
        print ".B " escape(line)
    }
}
# The help text of a usage line belongs to the description.
usage && what == "help" && /pto .*[^ ]  +[^ ]/ {
    line = $0
    sub(/^(usage:)? +/, "", line)
    if (line ~ /:$/)
        sub(/:$/, "", line)
    item("  " line, 1)
}
usage { next }
what == "usage" { next }

what == "list" && /^  [a-z]/ { item($0) }
what == "list" { next }

what == "variables" && /^  [A-Z]/ {
    flush()
    match($0, /^  [A-Z_]+ +/)
    name = substr($0, 3, RLENGTH - 2)
    sub(/ +$/, "", name)
    rest = substr($0, RLENGTH + 1)
    value = rest
    sub(/  .*$/, "", value)
    sub(/^[^ ]+ +/, "", rest)
    term = ".BR " name " \" (" rest ")\""
    # The default number of workers depends on the machine.
    text = (name == "PTO_WORKERS" ? "" : "Default " value ". ")
    next
}
what == "variables" && /^ +[^ ]/ && term != "" {
    line = $0
    sub(/^ +/, "", line)
    text = text (text == "" || text ~ / $/ ? "" : " ") line
    next
}
what == "variables" { next }

/^  [a-z-]/ { item($0); next }
/^ *$/ { flush(); next }
{
    line = $0
    sub(/^ +/, "", line)
    if ($0 !~ /^ / && term != "")
        flush()
    text = text (text == "" ? "" : " ") line
}

END { flush() }
