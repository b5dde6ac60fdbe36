#!/usr/bin/env python3
"""check.py FILE...         each is a sound file of trace events
   check.py --broken FILE   and is none any more after each of many single changes

What Chrome and Perfetto make of a file they do not say: they drop what they cannot place. So this is
stricter than they are. Every event is held against schema.json; then what takes more than one event
to see: names, flows, nesting, order. Ends with status 1, and says what is wrong with which event."""
import copy
import json
import os
import sys

import jsonschema

BLUR = 0.1  # microseconds: as exactly as clocks of two threads agree


class Wrong(Exception):
    pass


def read(text):
    """JSON and nothing but: no key twice, no numbers that are none."""
    def members(pairs):
        if len(dict(pairs)) != len(pairs):
            raise Wrong(f"a key comes twice in {[key for key, _ in pairs]}")
        return dict(pairs)

    def constant(word):
        raise Wrong(f"{word} is no number")

    try:
        return json.loads(text, object_pairs_hook=members, parse_constant=constant)
    except ValueError as error:
        raise Wrong(f"no JSON: {error}") from error


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.json")) as schema_file:
    schema = json.load(schema_file)
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)


def check_shape(trace):
    for error in validator.iter_errors(trace):
        where = "/".join(str(part) for part in error.absolute_path)
        raise Wrong(f"{where or 'the file'}: {error.message}")


def check_names(events):
    """Every thread has one name and one place; there is one process."""
    kinds = {"process_name": [], "thread_name": [], "thread_sort_index": []}
    for event in events:
        if event["ph"] == "M":
            kinds[event["name"]].append(event)
    if len(kinds["process_name"]) != 1 or events[0]["name"] != "process_name":
        raise Wrong("the name of the process does not come first, and once")
    named = [event["tid"] for event in kinds["thread_name"]]
    placed = [event["tid"] for event in kinds["thread_sort_index"]]
    for threads in (named, placed):
        if len(set(threads)) != len(threads):
            raise Wrong(f"a thread is named or placed twice: {sorted(threads)}")
    if set(named) != set(placed):
        raise Wrong(f"threads {sorted(named)} have names, {sorted(placed)} have places")
    places = [event["args"]["sort_index"] for event in kinds["thread_sort_index"]]
    if len(set(places)) != len(places):
        raise Wrong(f"two threads have one place: {sorted(places)}")
    for event in events:
        if event["ph"] != "M" and event["tid"] not in named:
            raise Wrong(f"thread {event['tid']} has no name: {event}")


def check_nesting(slices):
    """On a thread slices lie inside each other or apart."""
    threads = {}
    for event in slices:
        threads.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"], event))
    for spans in threads.values():
        spans.sort(key=lambda span: (span[0], -span[1]))
        around = []
        for start, end, event in spans:
            while around and around[-1][1] <= start + BLUR:
                around.pop()
            if around and end > around[-1][1] + BLUR:
                raise Wrong(f"does not nest: {event} in {around[-1][2]}")
            around.append((start, end, event))


def check_tasks(slices):
    """A task is submitted once, runs once at most, and not before it is submitted."""
    submits = {}
    for event in slices:
        if event["cat"] == "submit":
            task = event["args"]["task"]
            if task in submits:
                raise Wrong(f"task {task} is submitted twice")
            if task != len(submits):
                raise Wrong(f"task {task} is submitted as number {len(submits)}")
            submits[task] = event
    ran = {}
    for event in slices:
        if event["cat"] == "task":
            task = event["args"]["task"]
            if task in ran or task not in submits:
                raise Wrong(f"task {task} runs {'twice' if task in ran else 'and is not submitted'}")
            if event["args"] != submits[task]["args"]:
                raise Wrong(f"two things are said of task {task}: {event}, {submits[task]}")
            if event["ts"] + BLUR < submits[task]["ts"]:
                raise Wrong(f"task {task} runs before it is submitted")
            ran[task] = event
    calls = [event["ts"] for event in submits.values()]
    if calls != sorted(calls):
        raise Wrong("submits are not in order")


def check_flows(events, slices):
    """Each has one begin and one end, of one kind, in this order, each inside of a task."""
    begins, ends = {}, {}
    for event in events:
        if event["ph"] in "sf":
            side = begins if event["ph"] == "s" else ends
            if event["id"] in side:
                raise Wrong(f"flow {event['id']} comes twice: {event}")
            if event["name"] != event["cat"]:
                raise Wrong(f"a flow of two kinds: {event}")
            side[event["id"]] = event
    if set(begins) != set(ends):
        raise Wrong(f"flows without their other end: {sorted(set(begins) ^ set(ends))[:8]}")
    starts, lasts = set(), set()
    for event in slices:
        if event["cat"] == "task":
            end = event["ts"] + event["dur"] - (0.001 if event["dur"] else 0)
            starts.add((event["tid"], round(event["ts"], 3)))
            lasts.add((event["tid"], round(end, 3)))
    for number, begin in begins.items():
        end = ends[number]
        if begin["name"] != end["name"]:
            raise Wrong(f"flow {number} changes its kind: {begin}, {end}")
        if end["ts"] + BLUR < begin["ts"]:
            raise Wrong(f"flow {number} goes back in time: {begin}, {end}")
        if (begin["tid"], round(begin["ts"], 3)) not in lasts:
            raise Wrong(f"no task ends where flow {number} begins: {begin}")
        if (end["tid"], round(end["ts"], 3)) not in starts:
            raise Wrong(f"no task starts where flow {number} ends: {end}")


def check_counters(events):
    """Time never goes back, and nothing is said twice."""
    last = {}
    for event in events:
        if event["ph"] == "C":
            before = last.get(event["name"])
            if before and before["ts"] > event["ts"]:
                raise Wrong(f"a counter goes back in time: {before}, {event}")
            if before and before["args"] == event["args"]:
                raise Wrong(f"a counter says the same again: {event}")
            last[event["name"]] = event


def check(trace):
    check_shape(trace)
    events = trace["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    check_names(events)
    check_tasks(slices)
    check_nesting(slices)
    check_flows(events, slices)
    check_counters(events)
    return events


def tell(path):
    with open(path, encoding="utf-8", errors="strict") as file:
        events = check(read(file.read()))
    count = {phase: sum(event["ph"] == phase for event in events) for phase in "MXsfC"}
    beside = sum(event["ph"] == "M" and ", pending " in event["args"].get("name", "")
                 for event in events)
    print(f"{os.path.basename(path)}: {count['X']} slices, {count['s']} flows, {count['C']} counts, "
          f"{(count['M'] - 1) // 2} threads, {beside} of them for pending tasks")


# ---- that it bites ------------------------------------------------------------------------------

def first(trace, **like):
    for event in trace["traceEvents"]:
        if all(event.get(key) == value for key, value in like.items()):
            return event
    raise Wrong(f"there is no event like {like} to break")


def last(trace, **like):
    return first({"traceEvents": trace["traceEvents"][::-1]}, **like)


def drop(trace, event):
    trace["traceEvents"].remove(event)


def add(trace, event, **changes):
    trace["traceEvents"].append({**copy.deepcopy(event), **changes})


def cross(trace):
    """A wait that begins in the middle of a submit, and goes on behind it."""
    submit = first(trace, cat="submit")
    add(trace, submit, cat="wait", name="wait", ts=submit["ts"] + submit["dur"] / 2,
        dur=submit["dur"], args={"level": 0, "value": 0})


breaks = [
    ("an unknown phase", lambda t: first(t, ph="X").update(ph="Z")),
    ("a phase that we do not use", lambda t: first(t, ph="X").update(ph="b")),
    ("no time", lambda t: first(t, ph="X").pop("ts")),
    ("a time that is text", lambda t: first(t, ph="X").update(ts="12.5")),
    ("a time before all", lambda t: first(t, ph="X").update(ts=-1)),
    ("a length below zero", lambda t: first(t, ph="X").update(dur=-0.5)),
    ("no length", lambda t: first(t, cat="task").pop("dur")),
    ("a word that is not known", lambda t: first(t, ph="X").update(colour="red")),
    ("a mark of no task", lambda t: first(t, ph="i").update(args={})),
    ("a mark of everything", lambda t: first(t, ph="i").update(s="g")),
    ("a failure without a name", lambda t: first(t, ph="i", name="failed")["args"].update(status="")),
    ("another process", lambda t: first(t, ph="C").update(pid=2)),
    ("a thread that is text", lambda t: first(t, ph="s").update(tid="1")),
    ("a thread without a name", lambda t: first(t, ph="X").update(tid=9999)),
    ("no name of a thread", lambda t: drop(t, first(t, name="thread_name"))),
    ("an empty name", lambda t: first(t, name="thread_name")["args"].update(name="")),
    ("a thread named twice", lambda t: add(t, first(t, name="thread_name"))),
    ("no place of a thread", lambda t: drop(t, first(t, name="thread_sort_index"))),
    ("one place for two", lambda t: last(t, name="thread_sort_index")["args"].update(
        sort_index=first(t, name="thread_sort_index")["args"]["sort_index"])),
    ("a place that is none", lambda t: last(t, name="thread_sort_index")["args"].update(
        sort_index="last")),
    ("a process without a name", lambda t: drop(t, first(t, name="process_name"))),
    ("unknown metadata", lambda t: first(t, ph="M").update(name="process_labels")),
    ("a flow without an end", lambda t: drop(t, first(t, ph="f"))),
    ("a flow without a begin", lambda t: drop(t, first(t, ph="s"))),
    ("a flow that begins twice", lambda t: add(t, first(t, ph="s"))),
    ("a flow without a number", lambda t: first(t, ph="f").pop("id")),
    ("a flow of a negative number", lambda t: first(t, ph="f").update(id=-4)),
    ("a flow that changes its kind", lambda t: first(t, ph="f").update(name="after", cat="after")),
    ("a flow that ends nowhere", lambda t: first(t, ph="f").update(ts=1e9)),
    ("a flow that begins nowhere", lambda t: first(t, ph="s").update(ts=0)),
    ("a flow that binds to what follows", lambda t: first(t, ph="f").pop("bp")),
    ("a flow that binds at its begin", lambda t: first(t, ph="s").update(bp="e")),
    ("a counter that is text", lambda t: first(t, ph="C")["args"].update(used="12")),
    ("a counter that is true", lambda t: first(t, ph="C")["args"].update(used=True)),
    ("a counter below zero", lambda t: first(t, ph="C")["args"].update(used=-1)),
    ("a counter of nothing", lambda t: first(t, ph="C").update(args={})),
    ("a counter of no ring", lambda t: first(t, ph="C").update(name="level 0 cake")),
    ("a counter that goes back", lambda t: add(t, last(t, ph="C"), ts=0)),
    ("slices that cross", cross),
    ("a task that runs twice", lambda t: add(t, first(t, cat="task"), ts=1e8)),
    ("a task submitted twice", lambda t: add(t, first(t, cat="submit"), ts=1e8)),
    ("a task that nobody submitted", lambda t: drop(t, last(t, cat="submit"))),
    ("a task run too early", lambda t: first(t, cat="task").update(ts=0)),
    ("an outcome that is none", lambda t: first(t, cat="task")["args"].update(outcome="maybe")),
    ("a task without a place", lambda t: first(t, cat="task")["args"].update(site="somewhere")),
    ("a unit of time", lambda t: t.update(displayTimeUnit="s")),
    ("no events", lambda t: t.update(traceEvents=[])),
    ("words beside the events", lambda t: t.update(samples=[])),
    ("what was lost, as a number", lambda t: t["otherData"].update(lost=0)),
]

broken_texts = [
    ("nothing", lambda text: ""),
    ("cut off", lambda text: text[:len(text) // 2]),
    ("more behind the end", lambda text: text + "]"),
    ("a key twice", lambda text: text.replace('"ph":"X"', '"ph":"X","ph":"X"', 1)),
    ("no number", lambda text: text.replace('"dur":', '"dur":NaN,"x":', 1)),
    ("a comma too many", lambda text: text.replace("\n],", ",\n],", 1)),
]


def passes(make):
    try:
        check(make())
        return True
    except Wrong:
        return False


def try_broken(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    good = read(text)
    check(good)

    def changed(change):
        trace = copy.deepcopy(good)
        change(trace)
        return trace

    passed = [what for what, change in breaks if passes(lambda c=change: changed(c))]
    passed += [what for what, change in broken_texts if passes(lambda c=change: read(c(text)))]
    if passed:
        raise Wrong("not noticed: " + "; ".join(passed))
    print(f"{os.path.basename(path)}: broken in {len(breaks) + len(broken_texts)} ways, all noticed")


bad = 0
work = try_broken if sys.argv[1] == "--broken" else tell
for name in sys.argv[2 if work is try_broken else 1:]:
    try:
        work(name)
    except (Wrong, OSError, UnicodeError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        bad = 1
sys.exit(bad)
