/* trace_tasks.c - the tasks of a trace: what each is, how it ran, and when it was ready. */
#include "orchestrator/trace_build.h"

#include "base/error.h"

/* ---- From task number to index ---- */

static const ptoi_traced *first_traced(const ptoi_trace_maker *m)
{
    return (const ptoi_traced *)(const void *)m->log->tasks.memory;
}

static pto_status index_tasks(ptoi_trace_maker *m)
{
    const ptoi_traced *traced = first_traced(m);
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->n_tasks; i++) { /* numbers of a level rise */
        const uint64_t seq = traced->task >> 3;
        const uint32_t l = traced->level;
        m->level[l].first = m->level[l].count ? m->level[l].first : seq;
        m->level[l].count = seq - m->level[l].first + 1;
        m->n_args += traced->args;
        traced = ptoi_traced_next(traced);
    }
    for (uint32_t l = 0; l < m->rt->levels; l++) {
        count += m->level[l].count;
    }
    uint32_t *index = ptoi_built_memory(m->built, count * sizeof *index);
    if (!index) {
        return ptoi_trace_no_memory("numbers of tasks", count);
    }
    for (uint32_t l = 0; l < m->rt->levels; l++) {
        m->level[l].index = index;
        index += m->level[l].count;
    }
    traced = first_traced(m);
    for (uint32_t i = 0; i < m->n_tasks; i++, traced = ptoi_traced_next(traced)) {
        const uint32_t l = traced->level;
        m->level[l].index[(traced->task >> 3) - m->level[l].first] = i + 1;
    }
    return PTO_OK;
}

/* ---- Tasks and their arguments ---- */

/* Takes the arguments of task `i`, and separately its `after` parameters. */
static void take_args(ptoi_trace_maker *m, const ptoi_traced *traced, uint32_t i, ptrace_arg *args,
                      uint32_t *n_args, ptoi_afters *afters, uint32_t *n_afters)
{
    const ptrace_arg *descs = (const ptrace_arg *)(const void *)m->log->descs.memory;
    const ptoi_traced_arg *arg = ptoi_traced_args(traced);
    m->tasks[i].first_arg = *n_args;
    for (uint32_t a = 0; a < traced->args; a++, arg++) {
        if (arg->desc == PTRACE_NONE) {
            continue; /* its descriptor was lost, and counted */
        }
        if (descs[arg->desc].access == PTO_PARAM_AFTER) {
            afters->from[(*n_afters)++] = ptoi_trace_index_of_task(m, arg->where);
            afters->n[i]++;
            continue;
        }
        args[*n_args] = descs[arg->desc];
        args[*n_args].where = arg->where;
        args[*n_args].buffer = 0;
        if (descs[arg->desc].buffer) { /* its device */
            m->devices[m->n_devices++] = (ptrace_device){*n_args, descs[arg->desc].buffer};
        }
        if (descs[arg->desc].segment == PTRACE_USER) {
            args[*n_args].offset = arg->offset;
        } else {
            args[*n_args].buffer = arg->buffer;
        }
        (*n_args)++;
    }
    m->tasks[i].args = (uint16_t)(*n_args - m->tasks[i].first_arg);
}

pto_status ptoi_trace_make_tasks(ptoi_trace_maker *m, ptoi_afters *afters)
{
    uint32_t n_args = 0, n_afters = 0;
    m->n_tasks = m->log->n_tasks;
    PTO_TRY(index_tasks(m));
    m->tasks = ptoi_built_memory(m->built, m->n_tasks * sizeof *m->tasks);
    ptrace_arg *args = ptoi_built_memory(m->built, m->n_args * sizeof *args);
    afters->n = ptoi_built_memory(m->built, m->n_tasks * sizeof *afters->n);
    afters->from = ptoi_built_memory(m->built, m->n_args * sizeof *afters->from);
    m->devices = ptoi_built_memory(m->built,
                                   (m->rt->n_devices > 1 ? m->n_args + 1 : 1) * sizeof *m->devices);
    if (!m->tasks || !args || !afters->n || !afters->from || !m->devices) {
        return ptoi_trace_no_memory("tasks", m->n_tasks);
    }
    const ptoi_traced *traced = first_traced(m);
    for (uint32_t i = 0; i < m->n_tasks; i++, traced = ptoi_traced_next(traced)) {
        m->tasks[i] = (ptrace_task){
            .task = traced->task,
            .called = ptoi_trace_time_ns(m, traced->called),
            .submitted = ptoi_trace_time_ns(m, traced->called + traced->took),
            .ready = PTRACE_UNKNOWN,
            .start = PTRACE_UNKNOWN,
            .end = PTRACE_UNKNOWN,
            .retired = PTRACE_UNKNOWN,
            .kernel = traced->kernel,
            .site = traced->site ? traced->site : PTRACE_NONE,
            .lane = PTRACE_NONE,
            .level = traced->level,
            .outcome = PTRACE_OPEN};
        take_args(m, traced, i, args, &n_args, afters, &n_afters);
    }
    m->built->trace.tasks = m->tasks;
    m->built->trace.n_tasks = m->n_tasks;
    m->built->trace.args = args;
    m->built->trace.n_args = n_args;
    m->built->trace.dims = (const int64_t *)(const void *)m->log->dims.memory;
    m->built->trace.n_dims = m->log->dims.used / sizeof(int64_t);
    return PTO_OK;
}

/* ---- How they ran ---- */

_Static_assert((int)PTOI_DONE == PTRACE_DONE && (int)PTOI_FAILED == PTRACE_FAILED &&
                   (int)PTOI_SKIPPED == PTRACE_SKIPPED,
               "outcomes have the same values in a trace");

static void take_failed(ptoi_trace_maker *m, const ptoi_ran *ran, uint32_t task)
{
    const uint32_t status = (uint32_t)ran->at;
    char room[PTOI_STATUS_WORDS];
    const ptrace_failure *last = m->n_failed ? &m->failed[m->n_failed - 1] : NULL;
    const uint32_t name = last && last->status == status
                              ? last->name
                              : ptoi_trace_add_text(&m->texts, "%s",
                                                    ptoi_status_words((pto_status)status, room));
    const uint32_t words = ptoi_trace_add_text(&m->texts, "%s", (const char *)(ran + 1));
    m->failed[m->n_failed++] = (ptrace_failure){
        .task = task, .status = status, .name = name, .words = words};
}

void ptoi_trace_take_ran(ptoi_trace_maker *m, const ptoi_ran *ran, uint32_t lane)
{
    const uint32_t i = ptoi_trace_index_of_task(m, ran->task);
    if (i == PTRACE_NONE) {
        return; /* a task that was lost, and counted */
    }
    ptrace_task *task = &m->tasks[i];
    task->flags |= ran->kind & PTOI_RAN_INLINE ? PTRACE_INLINE : 0;
    switch ((ptoi_ran_kind)(ran->kind & ~PTOI_RAN_INLINE)) {
    case PTOI_RAN_READY:
        task->ready = ptoi_trace_time_ns(m, ran->at);
        break;
    case PTOI_RAN_WHOLE:
        task->end = ptoi_trace_time_ns(m, ran->at + ran->took);
        task->outcome = (uint8_t)ran->outcome;
        task->start = ptoi_trace_time_ns(m, ran->at);
        task->lane = lane;
        break;
    case PTOI_RAN_STARTED:
        task->start = ptoi_trace_time_ns(m, ran->at);
        task->lane = lane;
        break;
    case PTOI_RAN_ENDED:
        task->end = ptoi_trace_time_ns(m, ran->at);
        task->outcome = (uint8_t)ran->outcome;
        break;
    case PTOI_RAN_FAILED:
        take_failed(m, ran, i);
        break;
    case PTOI_RAN_PARKED:
        break;
    }
}

void ptoi_trace_take_retires(ptoi_trace_maker *m)
{
    const ptoi_traced_retire *r = (const void *)m->log->retires.memory;
    const ptoi_traced_retire *end = r + m->log->retires.used / sizeof *r;
    for (; r < end; r++) {
        for (uint64_t seq = r->begin; seq != r->end; seq++) {
            const uint32_t i = ptoi_trace_index_of(m, r->level, seq);
            if (i != PTRACE_NONE) {
                m->tasks[i].retired = ptoi_trace_time_ns(m, r->at);
            }
        }
    }
}

/* Whether a task ran on a block of a grid. */
static bool is_on_grid(const ptoi_trace_maker *m, const ptrace_task *task)
{
    const uint32_t first = m->rt->settings.n_workers + 1 + ptoi_trace_has_scheduler(m) +
                           m->rt->grid_first;
    return task->lane != PTRACE_NONE && task->lane - first < m->rt->grid_workers;
}

void ptoi_trace_move_grid(ptoi_trace_maker *m)
{
    uint64_t behind = 0;
    for (uint32_t i = 0; i < m->n_tasks; i++) {
        const ptrace_task *task = &m->tasks[i];
        if (is_on_grid(m, task) && task->submitted > task->start &&
            task->submitted - task->start > behind) {
            behind = task->submitted - task->start;
        }
    }
    behind = behind < m->grid.error_ns ? behind : m->grid.error_ns;
    for (uint32_t i = 0; behind && i < m->n_tasks; i++) {
        if (is_on_grid(m, &m->tasks[i])) {
            m->tasks[i].start += behind;
            m->tasks[i].end += behind;
        }
    }
}

/* Times of one task from both clocks: those that are wrong by no more than the error are put in order. */
static void mend(const ptoi_trace_maker *m, ptrace_task *task, uint64_t ready)
{
    const uint64_t error = m->grid.error_ns + PTOI_TICKS_BLUR_NS;
    ready = ready < task->start ? ready : task->start;
    if (task->ready < ready && ready - task->ready <= error) {
        task->ready = ready; /* the keeper's time */
    }
    if (task->start == PTRACE_UNKNOWN && task->end < ready && ready - task->end <= error) {
        task->end = ready; /* skipped on the device */
    }
    if (task->retired < task->end && task->end - task->retired <= error) {
        task->retired = task->end;
    }
}

void ptoi_trace_find_ready(ptoi_trace_maker *m)
{
    const ptrace_edge *edges = m->built->trace.edges;
    for (uint32_t i = 0; i < m->n_tasks; i++) {
        ptrace_task *task = &m->tasks[i];
        const bool on_grid = is_on_grid(m, task);
        uint64_t ready = task->submitted, blur = PTOI_TICKS_BLUR_NS;
        for (uint32_t e = task->first_edge; e < task->first_edge + task->edges; e++) {
            const ptrace_task *from = edges[e].from == PTRACE_NONE ? NULL
                                                                   : &m->tasks[edges[e].from];
            if (from && from->end != PTRACE_UNKNOWN && from->end > ready) {
                ready = from->end;
                blur = PTOI_TICKS_BLUR_NS + (on_grid != is_on_grid(m, from) ? m->grid.error_ns
                                             : on_grid                      ? m->grid.step_ns
                                                                            : 0);
            }
        }
        if (task->start < ready && ready - task->start <= blur) {
            task->start = ready; /* the difference is within the error of the clock */
            task->end = task->end < ready ? ready : task->end;
        }
        if (task->ready == PTRACE_UNKNOWN && task->outcome != PTRACE_OPEN) {
            task->ready = ready < task->start ? ready : task->start;
        }
        if (m->grid.compared) {
            mend(m, task, ready);
        }
    }
}
