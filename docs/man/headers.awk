# headers.awk - reads the public headers: declarations and the comments above them.
#
#     awk -v out=FOLDER -v version=1.2.3 -v date=2001-02-03 -f text.awk -f headers.awk \
#         -f pages.awk HEADER...
#
# A comment belongs to the declaration that follows it without a blank line. Adjacent declarations
# share a comment. So does a macro or an inline function without its own comment that uses a function
# just above it. A comment before a blank line describes its section.
#
#     /* ---- Section ---- */
#
#     /* About this section. */
#
#     /* About both. */
#     PTO_API pto_status pto_one(void);
#     PTO_API pto_status pto_two(void);
#
#     #define pto_one_more(x) (pto_one(), pto_one())
#
# Names that end in _ are private and are skipped. A declaration without a comment is an error.
#
# This file fills the arrays below; pages.awk turns them into pages.
#
#     header[h], title[h], top[h]        pto/tensor.h; its title; the rest of its first comment
#     section[s], section_header[s], section_text[s]
#     group[g]                           the text; group_section[g], group_members[g] "a b c"
#     prototype[name], group_of[name], kind[name] (function, macro, inline), body_of[name]
#     type_text[name], type_body[name] (lines), type_section[name]
#     map[name]                          the rows of an X-macro
#     constants[h]                       lines

BEGIN {
    RS = "\n"
    split("", page)
}

function refuse(why) {
    printf "%s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
    failed = 1
}

function trim(s) {
    sub(/^[ \t]+/, "", s)
    sub(/[ \t]+$/, "", s)
    return s
}

# The name of a function: the first name of a declaration that is followed by a parenthesis.
function function_name(text) {
    if (!match(text, /[A-Za-z_][A-Za-z0-9_]*\(/))
        return ""
    return substr(text, RSTART, RLENGTH - 1)
}

# Whether `text` contains `name` as a whole word.
function mentions(text, name,    at, before, after) {
    while (name != "" && (at = index(text, name)) > 0) {
        before = at > 1 ? substr(text, at - 1, 1) : " "
        after = substr(text, at + length(name), 1)
        if (before !~ /[A-Za-z0-9_]/ && after !~ /[A-Za-z0-9_]/)
            return 1
        text = substr(text, at + length(name))
    }
    return 0
}

# ---- Complete declarations -----------------------------------------------------------------------

# add NAME KIND PROTOTYPE BODY: a function or a function-like macro
function add(name, what, text, body,    i, n, members, shares) {
    if (name == "" || name ~ /_$/ || name == "PTO_PRINTF" || name ~ /_ENUM$/) {
        pending = ""
        return
    }
    if (name in group_of) {
        refuse(name " is declared twice")
        return
    }
    shares = pending == "" && joined
    if (pending == "" && !shares && groups && group_section[groups] == sections) {
        n = split(group_members[groups], members, " ")
        for (i = 1; i <= n; i++)
            shares = shares || mentions(body, members[i])
    }
    if (!shares) {
        if (pending == "")
            refuse(name " has no comment")
        group[++groups] = pending
        group_section[groups] = sections
        group_members[groups] = ""
    }
    group_members[groups] = group_members[groups] (group_members[groups] == "" ? "" : " ") name
    group_of[name] = groups
    kind[name] = what
    prototype[name] = text
    body_of[name] = body
    order[++names] = name
    pending = ""
    joined = 1
}

function add_type(name, body) {
    if (pending == "") {
        if (body !~ /\{/ && body !~ /\(/)
            return # a handle that is described elsewhere
        refuse(name " has no comment")
    }
    type_text[name] = pending
    type_body[name] = body
    type_section[name] = sections
    types[++n_types] = name
    pending = ""
    joined = 0
}

function add_define(text,    name) {
    sub(/^# *define +/, "", text)
    name = text
    sub(/[^A-Za-z0-9_].*$/, "", name)
    if (substr(text, length(name) + 1, 1) != "(") {
        # A constant. Guards have no value.
        if (text != name && name !~ /_$/ && name != "PTO_API" && name != "PTO_MUST_CHECK") {
            if (pending != "" && !constant_open)
                constants[headers] = constants[headers] (constants[headers] == "" ? "" : "\n") \
                    "/* " pending " */\n"
            constants[headers] = constants[headers] "#define " text "\n"
            constant_open = 1
        }
        return
    }
    if (name ~ /_MAP$/) {
        map[name] = text
        pending = ""
        return
    }
    match(text, /\)/)
    add(name, "macro", substr(text, 1, RSTART), substr(text, RSTART + 1))
}

function end_comment(text) {
    if (text ~ /^-+ .* -+$/) {
        gsub(/^-+ | -+$/, "", text)
        section[++sections] = text
        section_header[sections] = headers
        section_text[sections] = ""
        pending = ""
        joined = 0
    } else if (text ~ /^X\(/) {
        return # about the rows of a table
    } else if (!headers_seen[headers]++) {
        title[headers] = text
        sub(/\n.*$/, "", title[headers])
        sub(/^[^ ]+ - /, "", title[headers])
        top[headers] = index(text, "\n") ? substr(text, index(text, "\n") + 1) : ""
    } else {
        pending = pending == "" ? text : pending "\n\n" text
        joined = 0
    }
}

# ---- Lines -------------------------------------------------------------------------------------

FNR == 1 {
    headers++
    header[headers] = FILENAME
    sub(/^.*\/include\//, "", header[headers])
    section[++sections] = ""
    section_header[sections] = headers
    section_text[sections] = constants[headers] = pending = ""
    collecting = ""
    depth = joined = 0
}

# A comment that begins a line of its own, at the left.
collecting == "comment" {
    line = $0
    ended = sub(/ *\*\/.*$/, "", line)
    sub(/^ \* ?/, "", line)
    comment = comment "\n" line
    if (ended) {
        collecting = ""
        sub(/\n+$/, "", comment)
        end_comment(comment)
    }
    next
}

collecting == "" && /^\/\*/ && !skipping {
    line = substr($0, 3)
    sub(/^ /, "", line)
    if (sub(/ *\*\/.*$/, "", line)) {
        end_comment(line)
    } else {
        collecting = "comment"
        comment = line
    }
    next
}

# Skip the C++ variants; the pages are about C.
/^# *if/ {
    depth++
    cplusplus[depth] = /^# *ifdef __cplusplus/ ? 1 : 0
    skipping += cplusplus[depth]
    next
}
/^# *else/ {
    if (cplusplus[depth]) {
        skipping--
        cplusplus[depth] = 0
    }
    next
}
/^# *endif/ {
    skipping -= cplusplus[depth]
    depth--
    next
}
skipping || (/^# *(include|undef)/ && collecting == "") { next }

collecting == "" && /^$/ {
    if (pending != "" && !constant_open)
        section_text[sections] = section_text[sections] (section_text[sections] == "" ? "" : "\n\n") pending
    pending = ""
    joined = constant_open = 0
    next
}

collecting == "" && /^# *define/ {
    collecting = "define"
    text = ""
}
collecting == "define" {
    more = sub(/ *\\$/, "")
    text = text (text == "" ? "" : " ") (text == "" ? $0 : trim($0))
    if (!more) {
        collecting = ""
        add_define(text)
    }
    next
}

collecting == "" && /^PTO_API/ {
    collecting = "prototype"
    text = ""
}
collecting == "prototype" {
    text = text (text == "" ? "" : " ") trim($0)
    if (match(text, /;/)) {
        collecting = ""
        if (match(text, /\/\*.*\*\//)) {
            pending = pending (pending == "" ? "" : " ") trim(substr(text, RSTART + 2, RLENGTH - 4))
            text = substr(text, 1, RSTART - 1)
        }
        sub(/ PTO_PRINTF\([^)]*\)/, "", text)
        sub(/^PTO_API +(PTO_MUST_CHECK +)?/, "", text)
        sub(/;.*$/, "", text)
        add(function_name(text), "function", text, "")
    }
    next
}

collecting == "" && /^static inline/ {
    collecting = "inline"
    text = body = ""
}
collecting == "inline" {
    if (body == "" && $0 != "{")
        text = text (text == "" ? "" : " ") trim($0)
    else
        body = body $0 "\n"
    if ($0 == "}") {
        collecting = ""
        sub(/^static inline +(PTO_MUST_CHECK +)?/, "", text)
        add(function_name(text), "inline", text, body)
    }
    next
}

collecting == "" && /^typedef/ {
    collecting = "typedef"
    text = ""
}
collecting == "typedef" {
    text = text $0 "\n"
    if (text ~ /\{/ ? /^\}/ : /;/) {
        collecting = ""
        name = text
        if (name ~ /\{/) {
            sub(/\n$/, "", name)
            sub(/^.*\n\} /, "", name)
            sub(/;.*$/, "", name)
        } else {
            if (pending == "" && match(name, /\/\*.*\*\//))
                pending = trim(substr(name, RSTART + 2, RLENGTH - 4))
            sub(/ *\/\*.*\*\//, "", text)
            sub(/;.*$/, "", name)
            if (match(name, /\(\*[a-z0-9_]+\)/))
                name = substr(name, RSTART + 2, RLENGTH - 3)
            else
                sub(/^.*[ *]/, "", name)
        }
        add_type(name, text)
    }
    next
}
