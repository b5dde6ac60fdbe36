"""trace.py - a second reader of .ptrace files, to compare the page with, and files that are wrong."""
import base64
import struct

TASK = struct.Struct("<8Q6IHBBI")
EDGE = struct.Struct("<IIBBHII")
NONE = 0xFFFFFFFF
UNKNOWN = 0xFFFFFFFFFFFFFFFF
(META, STRINGS, KERNELS, SITES, LANES, TASKS, EDGES, ARGS, DIMS, EVENTS, RINGS, CAPS, LIVES,
 FAILURES, LABELS, RANGES) = range(1, 17)


class Trace:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        _, _, count, table = struct.unpack_from("<8sIIQ", self.data)
        self.lost, = struct.unpack_from("<Q", self.data, 40)
        self.sections = {}
        for i in range(count):
            kind, item, at, n = struct.unpack_from("<IIQQ", self.data, table + 24 * i)
            self.sections[kind] = (item, at, n)
        self.tasks = [TASK.unpack_from(r) for r in self.records(TASKS)]
        self.edges = [EDGE.unpack_from(r) for r in self.records(EDGES)]

    def records(self, kind):
        item, at, n = self.sections[kind]
        return [self.data[at + i * item:at + (i + 1) * item] for i in range(n)]

    def text(self, offset):
        _, at, _ = self.sections[STRINGS]
        return self.data[at + offset:self.data.index(b"\0", at + offset)].decode()

    def kernel(self, i):
        return self.text(struct.unpack_from("<I", self.records(KERNELS)[self.tasks[i][8]])[0])

    def labels(self):
        """{task: label}"""
        return {task: self.text(at) for task, at in struct.iter_unpack(
            "<II", b"".join(self.records(LABELS)))}

    def failures(self):
        """{task: (status, words, cause, edge)}"""
        return {task: (self.text(name), self.text(words), cause, edge)
                for task, _, name, words, cause, edge in struct.iter_unpack(
                    "<6I", b"".join(self.records(FAILURES)))}

    def ranges(self):
        """[(begin, end, name, parent, first_task, tasks)]"""
        return [(begin, end, self.text(name), parent, first, tasks)
                for begin, end, name, parent, first, tasks in struct.iter_unpack(
                    "<QQ4I", b"".join(self.records(RANGES)))]

    def edges_into(self, i):
        return self.edges[self.tasks[i][11]:self.tasks[i][11] + self.tasks[i][12]]

    def ran(self, i):
        return self.tasks[i][10] != NONE

    def duration(self, i):
        return self.tasks[i][5] - self.tasks[i][4] if self.ran(i) else 0

    def last_producer(self, i):
        found = [e[0] for e in self.edges_into(i)]
        return max(found, key=lambda j: self.tasks[j][5]) if found else None

    def longest_chain(self):
        """Nanoseconds of the longest chain."""
        long = []
        for i in range(len(self.tasks)):
            long.append(max([long[e[0]] for e in self.edges_into(i)], default=0) + self.duration(i))
        return max(long)


def embed(page, data, out, part=12 << 20):
    """The page with a trace inside, in parts as large as is said (a multiple of three)."""
    head, tail = page.split("@PTRACE_BASE64@")
    with open(out, "w") as file:
        file.write(head)
        for at in range(0, max(len(data), 1), part):
            if at:
                file.write('</script>\n<script type="application/octet-stream">')
            file.write(base64.b64encode(data[at:at + part]).decode())
        file.write(tail)


def patched(data, at, form, *values):
    copy = bytearray(data)
    struct.pack_into(form, copy, at, *values)
    return bytes(copy)


def from_the_future(trace):
    """The same trace as a later version would write it: longer records, a section more."""
    table, body, at = b"", b"", 64 + 24 * (len(trace.sections) + 1)
    for kind, (item, old, n) in list(trace.sections.items()) + [(77, (16, 0, 4))]:
        more = 8 if kind in (TASKS, EDGES, ARGS, LANES) else 0
        part = b"".join(trace.data[old + i * item:old + (i + 1) * item] + b"\xee" * more
                        for i in range(n))
        part += b"\0" * (-len(part) % 8)
        table += struct.pack("<IIQQ", kind, item + more, at + len(body), n)
        body += part
    head = bytearray(trace.data[:64])
    struct.pack_into("<IQQ", head, 12, len(trace.sections) + 1, 64, 64 + len(table) + len(body))
    return bytes(head) + table + body


def wrong_files(trace):
    """(name, data, words that the page must say)"""
    data, sections = trace.data, trace.sections
    task = lambda i, byte: sections[TASKS][1] + i * sections[TASKS][0] + byte
    edge = lambda i, byte: sections[EDGES][1] + i * sections[EDGES][0] + byte
    entry = lambda kind, byte: 64 + 24 * (kind - 1) + byte
    return [
        ("nothing at all", b"", "64 bytes of header"),
        ("a header cut", data[:40], "64 bytes of header"),
        ("another kind of file", b"\x7fELF" + data[4:], "not a .ptrace file"),
        ("a later version", patched(data, 8, "<I", 9), "version 9"),
        ("cut", data[:len(data) // 2], "the file was cut"),
        ("longer than it says", data + b"\0" * 8, "something was appended"),
        ("a table outside", patched(data, 16, "<Q", len(data)), "does not fit"),
        ("a section outside", patched(data, entry(EDGES, 16), "<Q", 1 << 40), "Section EDGES"),
        ("a section at the end of the world", patched(data, entry(ARGS, 8), "<Q", UNKNOWN - 7),
         "Section ARGS"),
        ("records too short", patched(data, entry(TASKS, 4), "<I", 88), "records of 88 bytes"),
        ("a section nowhere near a word", patched(data, entry(TASKS, 8), "<Q",
                                                  sections[TASKS][1] + 1), "Section TASKS"),
        ("a kernel that is not", patched(data, task(3, 64), "<I", 1000), "Task 3"),
        ("a lane that is not", patched(data, task(4, 72), "<I", 1000), "Task 4"),
        ("edges that are not", patched(data, task(5, 76), "<II", NONE - 1, 2), "Task 5"),
        ("an edge from nowhere", patched(data, edge(7, 0), "<I", 1 << 20), "Edge 7"),
        ("an edge to nowhere", patched(data, edge(8, 4), "<I", 1 << 30), "Edge 8"),
        ("an edge back", patched(data, edge(9, 0), "<II", 20, 10), "an earlier one"),
        ("an argument without dims", patched(data, sections[ARGS][1] + 24, "<I", 1 << 20),
         "Argument 0"),
        ("a failure of no task", patched(data, sections[FAILURES][1], "<I", 1 << 20), "Failure 0"),
        ("a failure with no cause", patched(data, sections[FAILURES][1] + 16, "<I", 1 << 20),
         "Failure 0"),
        ("a label of no task", patched(data, sections[LABELS][1] + 8, "<I", 1 << 20), "Label 1"),
        ("a range of no tasks", patched(data, sections[RANGES][1] + 28, "<I", 1 << 20), "Range 0"),
        ("a range inside of a later one", patched(data, sections[RANGES][1] + 20, "<I", 1),
         "begins after it"),
        ("an event of no lane", patched(data, sections[EVENTS][1] + 16, "<I", 99), "Event 0"),
    ]
