/* tables.js - the lists of the file format, by name and by number. The build takes the rows from
 * the C headers and puts them above this text. So this page cannot disagree with the library. */

/* Numbers by name: {WAIT: 5, PARKED: 6}. The second column is the number, or rows count from 0. */
function numbersOf(table) {
    return Object.fromEntries(table.map(([name, number], i) =>
        [name, typeof number === "number" ? number : i]));
}

/* A column of the table, indexed by the numbers of the rows. */
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

/* Events. Waits for room, in the order of the rings, have the numbers that the table leaves
 * free. */
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

/* A value of a ring in its unit, as text. */
function ringText(ring, value) {
    return RING_UNITS[ring] === "bytes" ? bytesText(value) : amount(value);
}
