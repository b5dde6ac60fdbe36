/* program_print.h - prints a program. Tensors and tasks are named by the number of their operation;
 * the runtime's messages show this number as the line of a submit.
 */
#ifndef PTO_TEST_PROGRAM_PRINT_H
#define PTO_TEST_PROGRAM_PRINT_H

#include "program_config.h"

static inline void print_param(FILE *out, const program_param *param)
{
    static const char *const names[] = {"?", "input", "output", "inout", "scalar", "after"};
    fprintf(out, " %s%s", param->nodep ? "nodep " : "", names[param->kind]);
    if (param->kind == PTO_PARAM_SCALAR) {
        return;
    }
    fprintf(out, " %u", param->of);
    if (param->to > 0) {
        fprintf(out, "[%d:%d]", param->from, param->to);
    } else if (param->kind != PTO_PARAM_AFTER && param->view) {
        fprintf(out, "[..]");
    }
    if (param->version) {
        fprintf(out, "@%+d", param->version);
    }
}

static inline void print_op(FILE *out, const program *p, uint32_t number)
{
    static const char *const guards[] = {"", " if even", " if odd"};
    static const char *const failures[] = {"", " fails before", " fails after", " fails by data"};
    static const char *const endings[] = {"", " later", " inside", " meanwhile"};
    const program_op *op = &p->op[number];
    fprintf(out, "  %3u %s%s%s", number, program_kind_text(op->kind),
            op->boundary ? " boundary" : "", guards[op->guard]);
    if (op->dtype) {
        fprintf(out, " %s", pto_dtype_name(op->dtype));
        for (int32_t d = 0; d < op->ndim; d++) {
            fprintf(out, "%s%" PRId64, d ? "," : "[", op->shape[d]);
        }
        fprintf(out, op->ndim ? "]" : "[]");
    }
    if (op->kind == OP_EXTERNAL) {
        fprintf(out, " in area %d at %u%s", (int)op->area, op->at, op->seed ? ", strided" : "");
    }
    if (op->device) {
        fprintf(out, " on sim:%u", op->device - 1);
    }
    if (op->kind == OP_FAULT) {
        static const char *const faults[] = {"alloc", "copy", "kernel", "lost"};
        fprintf(out, " %s number %" PRIu64, faults[op->at], op->seed);
    }
    if (op->kind == OP_RECAST || op->kind == OP_RELEASE || op->kind == OP_WAIT_TASK ||
        op->kind == OP_INFO) {
        fprintf(out, " %u", op->of);
    }
    if (op->kind == OP_SUBMIT) {
        fprintf(out, " %s%s%s%s", pto_worker_type_name(op->work.type), failures[op->work.failure],
                endings[op->work.ending], op->work.meddles ? " meddles" : "");
        if (op->spoil != SPOIL_NOTHING) {
            fprintf(out, " wrong (%s)", pto_status_name(program_spoil_status(op->spoil)));
        }
        fprintf(out, " %u+%u ns:", op->work.delay[0], op->work.delay[1]);
    }
    for (uint32_t i = 0; i < op->n_params; i++) {
        print_param(out, &p->param[op->first_param + i]);
    }
    fputc('\n', out);
}

/* The program, without what was dropped. */
static inline void program_print(FILE *out, const program *p)
{
    config_print(out, p);
    for (uint32_t op = 0; op < p->n_ops; op++) {
        if (!p->dropped[op]) {
            print_op(out, p, op);
        }
    }
}

#endif /* PTO_TEST_PROGRAM_PRINT_H */
