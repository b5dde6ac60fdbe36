# errors.awk - reads errors.txt: which errors public functions return, and when. For pages.awk and
# statuses.awk, after headers.awk.

# Reads the rows of a map into row_name[], row_value[], row_text[].
function read_rows(text,    n, i, c, level, quoted, field, fields, part) {
    n = 0
    text = substr(text, index(text, ")") + 1)
    while (match(text, /X\(/)) {
        text = substr(text, RSTART + 2)
        level = 1
        quoted = field = 0
        part = ""
        for (i = 1; level; i++) {
            c = substr(text, i, 1)
            if (c == "\"") {
                quoted = !quoted
                continue
            }
            if (!quoted) {
                level += (c == "(") - (c == ")")
                if (!level || (c == "," && level == 1)) {
                    fields[++field] = trim(part)
                    part = ""
                    continue
                }
                # Adjacent strings are one string.
                if (c == " ")
                    continue
            }
            part = part c
        }
        text = substr(text, i)
        n++
        row_name[n] = fields[1]
        row_value[n] = fields[2]
        row_text[n] = field > 2 ? fields[3] : fields[2]
        row_hint[n] = field == 4 && fields[4] !~ /^[0-9]+$/ ? fields[4] : ""
        if (text ~ /^ *\/\*/) {
            row_text[n] = text
            sub(/^ *\/\* */, "", row_text[n])
            sub(/ *\*\/.*$/, "", row_text[n])
        }
    }
    return n
}

function refuse_page(why) {
    print why > "/dev/stderr"
    failed = 1
}

# Reads errors.txt into rows_of[head]: lines "codes\ttext", or "@set". head_of[name] is the head of a
# function, and value_of[name] its RETURN VALUE.
# `files` has blanks between them: each may use the sets of those before it.
function read_errors(files,    n, list, i) {
    n = split(files, list, " ")
    for (i = 1; i <= n; i++)
        read_errors_of(list[i])
}

function read_errors_of(file,    line, head, n, names, i, row, known) {
    n = read_rows(map["PTO_STATUS_MAP"])
    for (i = 1; i <= n; i++)
        known["PTO_" row_name[i]] = 1
    row = head = ""
    while ((getline line < file) > 0) {
        if (line ~ /^#/ || line ~ /^ *$/)
            continue
        if (line ~ /^        /) { # goes on
            row = row " " trim(line)
            continue
        }
        end_row(file, head, row, known)
        row = ""
        if (line ~ /^    /) {
            row = substr(line, 5)
            continue
        }
        head = line
        sub(/: *$/, "", head)
        n = split(head, names, " ")
        for (i = 1; i <= n && names[i] !~ /^@/; i++) {
            if (!(names[i] in group_of))
                refuse_page(file ": there is no " names[i])
            else if (names[i] in head_of)
                refuse_page(file ": " names[i] " is there twice")
            head_of[names[i]] = head
        }
    }
    end_row(file, head, row, known)
    close(file)
}

function end_row(file, head, row, known,    codes, n, list, i) {
    if (row == "")
        return
    if (row ~ /^@/) {
        rows_of[head] = rows_of[head] trim(row) "\n"
        return
    }
    if (!match(row, /  +/)) {
        refuse_page(file ": " head ": no two blanks in: " row)
        return
    }
    codes = substr(row, 1, RSTART - 1)
    row = substr(row, RSTART + RLENGTH)
    n = split(codes, list, " ")
    if (codes == "returns") {
        n = split(head, list, " ")
        for (i = 1; i <= n; i++)
            value_of[list[i]] = row
        return
    }
    n = split(codes, list, /, */)
    for (i = 1; i <= n && codes != "other codes"; i++)
        if (!(list[i] in known))
            refuse_page(file ": " head ": there is no status " list[i])
    rows_of[head] = rows_of[head] codes "\t" row "\n"
}

# Adds the rows of a head to codes_of[] and when_of[]: its own, then those of sets. Rows with the same
# codes become one.
function add_rows(head,    n, lines, i) {
    n = split(rows_of[head], lines, "\n")
    for (i = 1; i < n; i++)
        if (lines[i] !~ /^@/)
            add_row(lines[i])
    for (i = 1; i < n; i++)
        if (lines[i] ~ /^@/) {
            if (!(lines[i] in rows_of))
                refuse_page(head ": there is no " lines[i])
            add_rows(lines[i])
        }
}

# Collects the rows of all members of a group: what its page names.
function add_page(g,    n, members, i, seen) {
    n_codes = 0
    n = split(group_members[g], members, " ")
    for (i = 1; i <= n; i++)
        if ((members[i] in head_of) && !(members[i] in value_of) && !seen[head_of[members[i]]]++)
            add_rows(head_of[members[i]])
}

function add_row(row,    codes, j) {
    codes = row
    sub(/\t.*$/, "", codes)
    sub(/^[^\t]*\t/, "", row)
    for (j = 1; j <= n_codes && codes_of[j] != codes; j++)
        ;
    if (j <= n_codes && index(row, substr(when_of[j], 1, length(when_of[j]) - 1)) == 1)
        when_of[j] = row # says the same and more
    if (j > n_codes) {
        codes_of[++n_codes] = codes
        when_of[j] = row
    } else if (index(when_of[j], row) == 0) {
        when_of[j] = when_of[j] " Or: " (row ~ /^`/ ? row : tolower(substr(row, 1, 1)) substr(row, 2))
    }
}

# Whether a call may return an error: it returns a pto_status, itself or through what a macro calls, and
# errors.txt does not say what else it returns.
function is_fallible(name,    i) {
    if (name in value_of)
        return 0
    if (prototype[name] ~ /^pto_status /)
        return 1
    if (kind[name] == "macro")
        for (i = 1; i <= names; i++)
            if (order[i] != name && mentions(body_of[name], order[i]) && is_fallible(order[i]))
                return 1
    return 0
}
