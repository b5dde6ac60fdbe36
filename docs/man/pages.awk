# pages.awk - writes manual pages of section 3 from the arrays of headers.awk.
#
#     one for each group of functions       the other members are links to the first
#     one for each type with a definition   its fields, and the functions that use it
#     one for each header                   pto/tensor.h: pto_tensor.h(3); pto/pto.h: pto(3)
#
# The folder `out` contains man3/. Prints the name of each page. `errors` lists errors.txt and the like, and `examples`
# the files of examples/, with blanks between them: where RETURN VALUE, ERRORS and EXAMPLE come from.
# Without them there are no such sections, and nothing is missed.

# ---- Text ---------------------------------------------------------------------------------------

# Formats words: our names bold, arguments italic. Hyphens stay, so that lines can break there.
function words(s,    result, word, at) {
    gsub(/\\/, "\\e", s)
    gsub(/'/, "\\(aq", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    # A minus sign is not a hyphen.
    gsub(/--/, "\\-\\-", s)
    while (match(s, /(^|[ (,=\[])-[0-9a-z<-]/)) {
        at = RSTART + RLENGTH - 2
        s = substr(s, 1, at - 1) "\\-" substr(s, at + 1)
    }
    result = ""
    while (match(s, /`[^`]+`|(pto|PTO)_[A-Za-z0-9_]*[A-Za-z0-9](\(3\))?/)) {
        word = substr(s, RSTART, RLENGTH)
        result = result substr(s, 1, RSTART - 1)
        s = substr(s, RSTART + RLENGTH)
        if (substr(word, 1, 1) == "`")
            result = result "\\fI" substr(word, 2, length(word) - 2) "\\fR"
        else if (sub(/\(3\)$/, "", word))
            result = result "\\fB\\%" word "\\fR(3)"
        else
            result = result "\\fB\\%" word "\\fR"
    }
    result = result s
    if (result ~ /^[.']/)
        result = "\\&" result
    return result
}

# Breaks text into lines of at most 78 bytes, with a new line for each sentence, as roff expects.
function sentences(s,    result, line, n, list, i) {
    result = line = ""
    n = split(words(s), list, " ")
    for (i = 1; i <= n; i++) {
        if (line != "" && (length(line) + 1 + length(list[i]) > 78 || \
            (line ~ /[a-z0-9R\])"][.:]\)?$/ && list[i] ~ /^[A-Z\\`"(]/))) {
            # A full stop at the end of a line must not look like the end of a sentence.
            result = result line (line ~ /[.:?!]\)?$/ && list[i] !~ /^[A-Z\\`"(]/ ? "\\&" : "") "\n"
            line = ""
        }
        if (line == "" && list[i] ~ /^[.']/)
            list[i] = "\\&" list[i]
        line = line (line == "" ? "" : " ") list[i]
    }
    return result line
}

# Whether an indented block is a list of `term  description`, with continuation lines below the
# description.
function is_list(block, n,    i, base, column) {
    match(block[1], /^ */)
    base = RLENGTH
    if (!match(block[1], /^ *[A-Za-z_][A-Za-z_0-9]*([ ,][ A-Za-z_.]*)?  +[^ \/]/))
        return 0
    column = 0
    for (i = 1; i <= n; i++) {
        match(block[i], /^ */)
        if (RLENGTH == base) {
            if (!match(block[i], /^ *[A-Za-z_][A-Za-z_0-9]*( [a-z]+|, [A-Za-z_.]+)*  +[^ \/]/))
                return 0
            column = RLENGTH - 1
        } else if (!column || RLENGTH < column) {
            return 0
        }
    }
    return 1
}

function print_block(block, n, file, fresh,    i, base, term, text) {
    while (n && block[n] ~ /^ *$/)
        n--
    if (is_list(block, n)) {
        match(block[1], /^ */)
        base = RLENGTH
        text = ""
        for (i = 1; i <= n; i++) {
            match(block[i], /^ */)
            if (RLENGTH == base) {
                if (text != "")
                    print sentences(text) > file
                term = text = substr(block[i], base + 1)
                sub(/  .*$/, "", term)
                sub(/^.*[^ ]  +/, "", text)
                text = substr(block[i], base + 1 + length(term))
                text = trim(text)
                print ".TP\n" words(term) > file
            } else {
                text = text " " trim(block[i])
            }
        }
        print sentences(text) > file
        return
    }
    match(block[1], /^ */)
    base = RLENGTH
    for (i = 2; i <= n; i++) {
        match(block[i], /^ */)
        if (block[i] !~ /^ *$/ && RLENGTH < base)
            base = RLENGTH
    }
    print (fresh ? "" : ".PP\n") ".in +4n\n.EX" > file
    for (i = 1; i <= n; i++)
        print escape(substr(block[i], base + 1)) > file
    print ".EE\n.in" > file
}

# Paragraphs, lists with dashes, and indented blocks. The caller has opened the section.
function print_text(text, file,    lines, n, i, paragraph, block, m, fresh, item, bare) {
    n = split(text, lines, "\n")
    paragraph = ""
    m = item = 0
    fresh = 1
    for (i = 1; i <= n + 1; i++) {
        if (i <= n && lines[i] ~ /^    / && !item) {
            if (paragraph != "") {
                print (fresh ? "" : ".PP\n") sentences(paragraph) > file
                paragraph = ""
                fresh = 0
            }
            bare = m ? bare : fresh
            fresh = 0
            block[++m] = lines[i]
            continue
        }
        if (m) {
            if (i <= n && lines[i] ~ /^ *$/ && lines[i + 1] ~ /^    /) {
                block[++m] = ""
                continue
            }
            print_block(block, m, file, bare)
            m = 0
        }
        if (i > n || lines[i] ~ /^ *$/ || lines[i] ~ /^- /) {
            if (paragraph != "") {
                print (item ? ".IP \\(bu 3\n" : fresh ? "" : ".PP\n") sentences(paragraph) > file
                paragraph = ""
                fresh = 0
            }
            item = i <= n && lines[i] ~ /^- /
            if (item)
                paragraph = substr(lines[i], 3)
            continue
        }
        paragraph = paragraph (paragraph == "" ? "" : " ") trim(lines[i])
    }
}

# The summary of a page: the comment up to its first full stop.
function summary(text,    n, lines, i, s) {
    n = split(text, lines, "\n")
    s = ""
    for (i = 1; i <= n && lines[i] != "" && lines[i] !~ /^    /; i++)
        s = s (s == "" ? "" : " ") trim(lines[i])
    if (match(s, /[.:;?]( |$)/))
        s = substr(s, 1, RSTART - 1)
    if (s ~ /^[A-Z]([a-z]| )/)
        s = tolower(substr(s, 1, 1)) substr(s, 2)
    gsub(/`/, "", s)
    return s
}

# ---- Prototypes ---------------------------------------------------------------------------------

# Splits arguments at commas into `parts`.
function split_arguments(text, parts,    i, c, level, n, part) {
    n = level = 0
    part = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        level += (c == "(") - (c == ")")
        if (c == "," && !level) {
            parts[++n] = trim(part)
            part = ""
        } else {
            part = part c
        }
    }
    parts[++n] = trim(part)
    return n
}

function argument(part) {
    if (part == "void" || part == "...")
        return escape(part)
    if (match(part, /\(\*[a-z0-9_]+\)/))
        return escape(substr(part, 1, RSTART + 1)) "\\fI" substr(part, RSTART + 2, RLENGTH - 3) \
            "\\fB" escape(substr(part, RSTART + RLENGTH - 1))
    match(part, /[A-Za-z_][A-Za-z0-9_]*(\[.*\])?$/)
    return escape(substr(part, 1, RSTART - 1)) "\\fI" escape(substr(part, RSTART)) "\\fB"
}

# Prints a prototype in lines that fit into 79 columns, including the margin of a page.
function print_prototype(name, file,    text, open, head, n, parts, i, line, shown, indent, piece) {
    text = prototype[name]
    open = index(text, name "(") + length(name)
    head = substr(text, 1, open)
    n = split_arguments(substr(text, open + 1, length(text) - open - 1), parts)
    indent = length(head) < 34 ? length(head) : 8
    line = shown = ""
    shown = "\\fB" escape(head)
    line = head
    for (i = 1; i <= n; i++) {
        piece = parts[i] (i < n ? "," : kind[name] == "macro" ? ")" : ");")
        if (i > 1) {
            if (length(line) + 1 + length(piece) > 72) {
                print shown "\\fR" > file
                line = sprintf("%" indent "s", "")
                shown = "\\fB" line
            } else {
                line = line " "
                shown = shown " "
            }
        }
        line = line piece
        shown = shown argument(parts[i]) (i < n ? "," : kind[name] == "macro" ? ")" : ");")
    }
    print shown "\\fR" > file
}

# ---- Tables (X-macros) --------------------------------------------------------------------------

# ---- Pages --------------------------------------------------------------------------------------

function page_of_header(h,    name) {
    name = header[h]
    gsub(/\//, "_", name)
    return name == "pto_pto.h" ? "pto" : name
}

# The libraries of a header: that of pto/mpi.h is one of two, beside libpto.
function is_mpi(h) {
    return header[h] == "pto/mpi.h"
}

function begin_page(name, all, what, h,    file) {
    if (name in page)
        refuse_page(name ": two pages of that name")
    file = out "/man3/" name ".3"
    page[name] = file
    pages[++n_pages] = name
    printf ".\\\" Generated from the headers of PTO Runtime. Change it there.\n" > file
    printf ".TH %s 3 %s \"PTO Runtime %s\" \"PTO Runtime Manual\"\n.ad l\n", \
        toupper(name), date, version > file
    sub(/\.$/, "", what)
    print ".SH NAME\n" all "\n\\- " sentences(what) > file
    print ".SH LIBRARY" > file
    if (is_mpi(h))
        print "PTO Runtime for MPI (\\fIlibpto\\-mpi\\fR,\n\\fI\\-lpto\\-mpi\\-openmpi\\fR or \\fI\\-lpto\\-mpi\\-mpich\\fR)" > file
    else
        print "PTO Runtime (\\fIlibpto\\fR, \\fI\\-lpto\\fR)" > file
    return file
}

function link(from, to) {
    if (from in page)
        refuse_page(from ": two pages of that name")
    page[from] = out "/man3/" from ".3"
    pages[++n_pages] = from
    print ".so man3/" to ".3" > page[from]
    close(page[from])
}

# see NAME: adds a page to SEE ALSO, once.
function see(name) {
    if (name in group_of)
        name = first[group_of[name]]
    else if (!(name in type_body) && !(name in overview))
        return
    if (name != self)
        wanted[name] = 1
}

function see_mentioned(text,    word) {
    while (match(text, /(pto|PTO)_[A-Za-z0-9_]*[A-Za-z0-9]/)) {
        word = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        see(word)
    }
}

function print_see_also(file,    list, n, name, i, j, t) {
    n = 0
    for (name in wanted)
        list[++n] = name
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
            t = list[j]
            list[j] = list[j - 1]
            list[j - 1] = t
        }
    print ".SH SEE ALSO" > file
    for (i = 1; i <= n; i++)
        print ".BR \\%" list[i] " (3)" (i < n ? "," : "") > file
    split("", wanted)
}

# ---- RETURN VALUE, ERRORS, EXAMPLE -------------------------------------------------------------------

# The first sentence of a comment that begins with "Returns", without that word.
function returned(text) {
    gsub(/\n/, " ", text)
    if (!match(text, /Returns ([^.]|\.[^ ])*\./) && !match(text, /Returns .*$/))
        return ""
    return capital(substr(text, RSTART + 8, RLENGTH - 8))
}

function print_returns(g, fallible, file,    n, members, i, said, alone, value) {
    print ".SH RETURN VALUE" > file
    if (fallible) {
        print "\\fBPTO_OK\\fR, or an error code (\\fBpto_status\\fR(3));" > file
        print "\\fB\\%pto_error_detail\\fR(3) describes the error." > file
    }
    n = split(group_members[g], members, " ")
    said = fallible ? "-" : ""
    for (i = 1; i <= n; i++) {
        if (is_fallible(members[i]) || prototype[members[i]] ~ /^void /)
            continue
        value = members[i] in value_of ? value_of[members[i]] : returned(group[g])
        if (value == "")
            refuse_page(members[i] ": what does it return? Say \"Returns ...\" in its comment, or in docs/man/errors.txt")
        if (value == said)
            continue
        if (fallible || (said != "" && said != value))
            print ".PP" > file
        print sentences((fallible ? members[i] ": " : "") value) > file
        said = value
    }
    if (said == "")
        print "None." > file
}

function print_errors(g, fallible, file,    i) {
    print ".SH ERRORS" > file
    if (!fallible) {
        print "None." > file
        return
    }
    add_page(g)
    if (!n_codes)
        refuse_page(first[g] ": which errors, and when? Add them to docs/man/errors.txt")
    for (i = 1; i <= n_codes; i++)
        print ".TP\n" words(codes_of[i]) "\n" sentences(when_of[i]) > file
}

# Reads the parts of an example: part[], and part_for[] the names that it gives.
function read_example(file,    line, inside, status) {
    inside = 0
    while ((status = (getline line < file)) > 0) {
        if (line ~ /^ *\/\* example.*\*\/$/) {
            sub(/^ *\/\* example:? */, "", line)
            sub(/ *\*\/$/, "", line)
            part[++parts] = ""
            part_for[parts] = " " line " "
            inside = 1
        } else if (line ~ /^ *\/\* end \*\/$/) {
            inside = 0
        } else if (inside) {
            part[parts] = part[parts] line "\n"
        }
    }
    close(file)
    if (inside || status < 0)
        refuse_page(file ": an example without an end, or no such file")
}

function print_example(g, file,    n, members, i, m, best, lines, base, rank, best_rank) {
    n = split(group_members[g], members, " ")
    best = best_rank = 0
    for (i = 1; i <= parts; i++) {
        rank = 0
        for (m = 1; m <= n; m++) {
            if (index(part_for[i], " " members[m] " "))
                rank = 3
            else if (rank < 2 && mentions(part[i], members[m]))
                rank = m == 1 ? 2 : 1
        }
        if (rank > best_rank || (rank && rank == best_rank && length(part[i]) < length(part[best]))) {
            best = i
            best_rank = rank
        }
    }
    if (!best) {
        refuse_page(first[g] ": no example. Add one to docs/man/examples")
        return
    }
    print ".SH EXAMPLE\n.EX" > file
    n = split(part[best], lines, "\n")
    base = 99
    for (i = 1; i < n; i++)
        if (match(lines[i], /^ */) && lines[i] !~ /^ *$/ && RLENGTH < base)
            base = RLENGTH
    for (i = 1; i < n; i++)
        print escape(substr(lines[i], base + 1)) > file
    print ".EE" > file
}

# ---- Pages -----------------------------------------------------------------------------------------

function print_group(g,    n, members, i, all, file, fallible, s, text, name, siblings, near) {
    n = split(group_members[g], members, " ")
    self = first[g]
    all = members[1]
    for (i = 2; i <= n; i++)
        all = all ",\n" members[i]
    file = begin_page(self, all, summary(group[g]), section_header[group_section[g]])
    s = group_section[g]
    print ".SH SYNOPSIS\n.nf\n.B #include <" header[section_header[s]] ">\n.PP" > file
    fallible = 0
    for (i = 1; i <= n; i++) {
        print_prototype(members[i], file)
        fallible = fallible || is_fallible(members[i])
        see_mentioned(prototype[members[i]])
    }
    print ".fi\n.SH DESCRIPTION" > file
    print_text(group[g], file)
    if (errors != "") {
        print_returns(g, fallible, file)
        print_errors(g, fallible, file)
    }
    if (section_text[s] != "") {
        print ".SH NOTES" > file
        print_text(section_text[s], file)
    }
    if (examples != "")
        print_example(g, file)
    see_mentioned(group[g])
    see_mentioned(section_text[s])
    see(page_of_header(section_header[s]))
    if (fallible)
        see("pto_error_detail")
    # Neighbours in the same section.
    for (i = 1; i <= groups; i++)
        if (group_section[i] == s && i >= g - 3 && i <= g + 3)
            see(first[i])
    delete wanted["pto_status"]
    if (fallible && self != "pto_status")
        wanted["pto_status"] = 1
    print_see_also(file)
    close(file)
    for (i = 2; i <= n; i++)
        link(members[i], self)
}

# The body of a type: its code goes to the synopsis, the comments of its members to a list.
function print_type(name,    file, n, lines, i, code, said, inside, rows, j, prefix, parts, tag, s, u, m,
                    names_of, valued, alone, held, shown) {
    self = name
    file = begin_page(name, name, summary(type_text[name]), section_header[type_section[name]])
    s = type_section[name]
    print ".SH SYNOPSIS\n.nf\n.B #include <" header[section_header[s]] ">\n.PP\n.ft B" > file
    n = split(type_body[name], lines, "\n")
    parts = tag = prefix = held = shown = ""
    inside = 0
    for (i = 1; i < n; i++) {
        code = lines[i]
        said = ""
        if (inside) {
            said = code
            inside = !sub(/ *\*\/.*$/, "", said)
            said = trim(said)
            sub(/^\* ?/, "", said)
            parts = parts " " said (inside ? "" : "\n")
            continue
        }
        if (code ~ /^#define/) {
            prefix = code
            valued = prefix ~ /value\),/
            sub(/^[^)]*\) /, "", prefix)
            sub(/##.*$/, "", prefix)
            continue
        }
        if (code ~ /^#/)
            continue
        if (match(code, /[A-Z_]+_MAP\(/)) {
            rows = read_rows(map[substr(code, RSTART, RLENGTH - 1)])
            for (j = 1; j <= rows; j++) {
                print "    " prefix row_name[j] (valued ? " = " row_value[j] : "") "," > file
                parts = parts "@" prefix row_name[j] "\t" row_text[j] \
                    (row_hint[j] == "" ? "" : ". To do: " row_hint[j]) "\n"
            }
            continue
        }
        alone = code ~ /^ *\/\*/
        if (match(code, /\/\*/)) {
            said = substr(code, RSTART + 2)
            code = substr(code, 1, RSTART - 1)
            inside = !sub(/ *\*\/.*$/, "", said)
            said = trim(said)
        }
        sub(/ +$/, "", code)
        if (code !~ /^ *$/) {
            # Alignment for comments is not needed here.
            match(code, /^ */)
            u = substr(code, 1, RLENGTH)
            code = trim(code)
            gsub(/  +/, " ", code)
            code = held (held == "" ? "" : " ") code
            held = ""
            if (code ~ /^[a-z0-9_]+$/ && said == "" && !inside) {
                held = code # the name is on the next line
                continue
            }
            print escape(u code) > file
            shown = shown code "\n"
        }
        if (said == "" && !inside)
            continue
        if (alone) {
            parts = parts "@\t" said (inside ? "" : "\n")
            continue
        }
        tag = code
        sub(/ *[;,{]*$/, "", tag)
        sub(/ = .*$/, "", tag)
        if (match(tag, /\(\*[a-z0-9_]+\)/)) {
            tag = substr(tag, RSTART + 2, RLENGTH - 3)
        } else if (tag ~ /,/) {
            match(tag, /[a-z_0-9]+(,.*)$/)
            tag = substr(tag, RSTART)
            gsub(/\*/, "", tag)
        } else if (!sub(/^.*[ *]/, "", tag)) {
            tag = trim(tag)
        }
        sub(/\[.*$/, "", tag)
        parts = parts "@" tag "\t" said (inside ? "" : "\n")
    }
    print ".ft R\n.fi\n.SH DESCRIPTION" > file
    print_text(type_text[name], file)
    m = split(parts, lines, "@")
    for (i = 2; i <= m; i++) {
        tag = said = lines[i]
        sub(/\t.*$/, "", tag)
        sub(/^[^\t]*\t/, "", said)
        gsub(/\n/, "", said)
        said = trim(said)
        if (said == "")
            continue
        if (tag == "")
            print ".PP\n" sentences(said) > file
        else
            print ".TP\n.B " escape(tag) "\n" \
                sentences((mentions(shown, first_word(said)) ? said : capital(said)) (said ~ /[.:]$/ ? "" : ".")) > file
    }
    see(page_of_header(section_header[s]))
    see_mentioned(type_body[name])
    see_mentioned(type_text[name])
    # Functions that use it, unless there are too many.
    u = 0
    for (i = 1; i <= groups; i++)
        if (uses(i, name))
            names_of[++u] = first[i]
    for (i = 1; i <= u && u <= 16; i++)
        see(names_of[i])
    if (name != "pto_status")
        delete wanted["pto_status"]
    print_see_also(file)
    close(file)
}

# Capitalizes a sentence, but not code.
function capital(s) {
    return s ~ /^[a-z]+[ ,;:.]/ || s ~ /^[a-z]+$/ ? toupper(substr(s, 1, 1)) substr(s, 2) : s
}

function first_word(s) {
    sub(/[^A-Za-z0-9_].*$/, "", s)
    return s
}

function uses(g, name,    n, members, i) {
    n = split(group_members[g], members, " ")
    for (i = 1; i <= n; i++)
        if (mentions(prototype[members[i]], name))
            return 1
    return 0
}

function print_header(h,    file, i, s, begun, n, lines, name) {
    self = page_of_header(h)
    file = begin_page(self, self == "pto" ? "pto,\npto.h" : self, title[h], h)
    print ".SH SYNOPSIS\n.nf\n.B #include <" header[h] ">\n.PP" > file
    print "cc program.c " (is_mpi(h) ? "\\-lpto\\-mpi\\-openmpi " : "") "$(pkg\\-config \\-\\-cflags \\-\\-libs pto)\n.fi" > file
    print ".SH DESCRIPTION" > file
    print_text(top[h] == "" ? title[h] "." : top[h], file)
    if (self == "pto") {
        print ".SS Headers" > file
        for (i = 1; i <= headers; i++) {
            if (i != h)
                print ".TP\n.BR " page_of_header(i) " (3)\n" sentences(title[i]) > file
            see(page_of_header(i))
        }
    }
    begun = 0
    for (s = 1; s <= sections; s++) {
        if (section_header[s] != h)
            continue
        n = 0
        for (i = 1; i <= groups; i++) {
            if (group_section[i] != s)
                continue
            if (!begun++)
                print ".SH FUNCTIONS" > file
            if (!n++ && section[s] != "") {
                print ".SS " words(section[s]) > file
                if (section_text[s] != "")
                    print_text(section_text[s], file)
            }
            lines = group_members[i]
            gsub(/ /, ",\\fR \\fB\\%", lines)
            print ".TP\n\\fB" lines "\\fR(3)\n" sentences(summary(group[i])) > file
        }
    }
    begun = 0
    for (i = 1; i <= n_types; i++) {
        if (section_header[type_section[types[i]]] != h)
            continue
        if (!begun++)
            print ".SH TYPES" > file
        print ".TP\n.BR " types[i] " (3)\n" sentences(summary(type_text[types[i]])) > file
    }
    if (constants[h] != "") {
        print ".SH CONSTANTS\n.EX" > file
        n = split(constants[h], lines_of, "\n")
        for (i = 1; i < n; i++)
            print escape(lines_of[i]) > file
        print ".EE" > file
    }
    see("pto")
    see_mentioned(top[h])
    see("pto_error_detail")
    print_see_also(file)
    close(file)
    if (self == "pto")
        link("pto.h", "pto")
}

# A macro of the form name(rt, ...) that passes its arguments and the line of the call on to name_at has
# the parameters of that function, except for file and line.
function spell_macro(name,    body, to, null, text) {
    if (kind[name] != "macro" || prototype[name] !~ /^[a-z_]+\([a-z]+, \.\.\.\)$/)
        return
    body = body_of[name]
    gsub(/[ \\]+/, " ", body)
    to = body = trim(body)
    sub(/\(.*$/, "", to)
    if (to !~ /_at$/ || !(to in prototype))
        return
    null = body ~ /\(\([a-z]+\), __VA_ARGS__, NULL, __FILE__, __LINE__\)$/
    if (!null && body !~ /\(\([a-z]+\), __VA_ARGS__, __FILE__, __LINE__\)$/)
        return
    text = prototype[to]
    sub(to "\\(", name "(", text)
    if (!sub(/, const char \*file, int line\)$/, ")", text))
        return
    if (null)
        sub(/, [^,]*\)$/, ")", text)
    prototype[name] = text
    kind[name] = "spelt"
}

END {
    for (n = 1; n <= names; n++)
        spell_macro(order[n])
    # The name that users call comes first: pto_alloc before pto_alloc_at.
    for (g = 1; g <= groups; g++) {
        first[g] = group_members[g]
        sub(/ .*$/, "", first[g])
        short = first[g]
        if (sub(/_(at|ex|EX)$/, "", short) && (short in group_of) && group_of[short] == g) {
            members = group_members[g] " "
            sub(" " short " ", " ", members)
            group_members[g] = trim(short " " members)
            first[g] = short
        }
    }
    for (h = 1; h <= headers; h++)
        overview[page_of_header(h)] = 1
    if (errors != "")
        read_errors(errors)
    n_files = split(examples, files, " ")
    for (i = 1; i <= n_files; i++)
        read_example(files[i])
    for (g = 1; g <= groups; g++)
        print_group(g)
    for (t = 1; t <= n_types; t++)
        print_type(types[t])
    for (h = 1; h <= headers; h++)
        print_header(h)
    for (i = 1; i <= n_pages; i++)
        print pages[i]
    exit failed
}
