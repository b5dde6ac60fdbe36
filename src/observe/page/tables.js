/* tables.js - the lists of the file format, by name and by number. Their rows stand above: they
 * come from the C headers, so that nothing here can disagree with what writes a trace. */

/* {WAIT: 5, PARKED: 6}: rows have a number in second place, or are counted from 0 on. */
function numbersOf(table) {
    return Object.fromEntries(table.map(([name, number], i) =>
        [name, typeof number === "number" ? number : i]));
}

/* A column, by the numbers of the rows. */
function columnOf(table, column) {
    const numbers = numbersOf(table), list = [];
    for (const row of table) {
        list[numbers[row[0]]] = row[column];
    }
    return list;
}

const SECTION_KINDS = numbersOf(PTRACE_SECTION_MAP);
const SECTION_BYTES = columnOf(PTRACE_SECTION_MAP, 4);
const LANE = numbersOf(PTRACE_LANE_MAP);
const OUTCOME = numbersOf(PTRACE_OUTCOME_MAP), OUTCOME_WORDS = columnOf(PTRACE_OUTCOME_MAP, 2);
const EDGE = numbersOf(PTRACE_EDGE_MAP), EDGE_NAMES = columnOf(PTRACE_EDGE_MAP, 1);
const EDGE_WORDS = columnOf(PTRACE_EDGE_MAP, 2);
const RING_NAMES = columnOf(PTO_LEVEL_RING_MAP, 3), RING_UNITS = columnOf(PTO_LEVEL_RING_MAP, 4);
const DTYPE = numbersOf(PTO_DTYPE_MAP), DTYPE_NAMES = columnOf(PTO_DTYPE_MAP, 2);
const DTYPE_BYTES = columnOf(PTO_DTYPE_MAP, 3);
const ACCESS = numbersOf(PTO_PARAM_MAP), ACCESS_NAMES = columnOf(PTO_PARAM_MAP, 2);
const TYPE_NAMES = columnOf(PTO_WORKER_MAP, 2);
const STAGE_WORDS = columnOf(PTO_OVERLAP_STAGE_MAP, 2);

/* Events: waits for room, ring by ring, have the numbers that the table leaves free. */
const EVENT = numbersOf(PTRACE_EVENT_MAP), EVENT_WORDS = columnOf(PTRACE_EVENT_MAP, 3);
const IS_ROOM = []; // by number: whether it is a wait for room
for (const [, name] of PTO_LEVEL_RING_MAP) {
    let kind = 0;
    while (EVENT_WORDS[kind]) {
        kind++;
    }
    EVENT_WORDS[kind] = `waits for room: ${name}`;
    IS_ROOM[kind] = true;
}

/* An amount of a ring in its unit. */
function ringText(ring, value) {
    return RING_UNITS[ring] === "bytes" ? bytesText(value) : amount(value);
}
