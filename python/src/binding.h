/* binding.h - what the files of the Python module share.
 *
 *     module.c     the module: types, tables, life at import and at exit
 *     runtime.c    pto.Runtime: the type
 *     config.c     its options
 *     core.c       what is behind it: who may call, the GIL and signals during waits, life
 *     submit.c     rt.submit
 *     job.c        what a task keeps alive until it is complete
 *     poison.c      memory that failed tasks were to write, until a new array may have it
 *     task.c       pto.Task
 *     site.c       file and line of a call
 *     wait.c       rt.wait, rt.sync, rt.read
 *     managed.c    managed memory and scopes
 *     stats.c      rt.stats
 *     argument.c   an array, a buffer or a DLPack tensor becomes a pto_tensor
 *     arrival.c    memory of other libraries on a GPU: their work comes before ours
 *     tensor.c     pto.Tensor: tensors that were made before, managed ones among them
 *     kernel.c     pto.Kernel
 *     registry.c   the kernels of a runtime
 *     prototype.c  calling C functions by their prototype
 *     call.c       Python kernels: the GIL on workers, arguments as arrays, exceptions
 *     builtin.c    rearrange, fill and work requests as methods of a runtime
 *     numpy_abi.c  NumPy through its binary interface, if it is loaded
 *     dtype.c      element types and their names
 *     error.c      statuses become exceptions
 *     blas.c       kernels of pto.blas
 *
 * Threads. All Python objects, and every field here without another note, belong to whoever holds the
 * GIL. The orchestrating thread releases the GIL wherever the library waits or runs other tasks. Kernels that
 * are Python functions take it (call.c).
 */
#ifndef PTO_BINDING_H
#define PTO_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pto/embed.h>
#include <pto/pto.h>

/* Errors are rare: the compiler moves code that leads to one of these out of the way of the rest. */
#define RARE __attribute__((cold))
RARE PyAPI_FUNC(PyObject *) PyErr_Format(PyObject *exception, const char *format, ...);
RARE PyAPI_FUNC(void) PyErr_SetString(PyObject *exception, const char *text);
RARE PyAPI_FUNC(PyObject *) PyErr_NoMemory(void);

/* Any of our objects as a Python object. */
#define OBJECT(x) ((PyObject *)(void *)(x))

/* ---- Element types: dtype.c ---- */

/* One element type. `as` is what the runtime takes it for: it only moves such elements and compares
 * their places, so the size counts. */
typedef struct Dtype {
    const char *name;  /* "float32" */
    const char *brief; /* "f4" */
    const char *c;     /* in C prototypes: "float" */
    char format;       /* of the struct module */
    char numpy;        /* number of the type in NumPy; -1: NumPy does not have it */
    uint8_t bytes;
    pto_dtype as;
    bool foreign; /* `as` is another type of that size: the library has none */
} Dtype;

const Dtype *dtype_of_name(const char *name);                       /* NULL: unknown */
const Dtype *dtype_of_format(const char *format, Py_ssize_t bytes); /* NULL: unsupported */
const Dtype *dtype_of_numpy(int number);                            /* NULL: unsupported */
const Dtype *dtype_of_pto(pto_dtype dtype);

/* Reads what a program gives as a dtype: "f4", numpy.float32, float ... If the table does not have it, *dtype is NULL,
 * and *descr a NumPy dtype (a new reference) with elements of *bytes. false with an exception. */
bool dtype_read(PyObject *object, const Dtype **dtype, PyObject **descr, int64_t *bytes);

/* ---- A runtime ---- */

typedef struct Job Job;

/* Where an object that was submitted is in the registry. */
typedef struct Recent {
    PyObject *object; /* the registry has a reference; NULL: empty */
    size_t place;
} Recent;

/* A kernel without work: its tasks only depend on others. */
typedef struct Idle {
    bool registered;
    pto_kernel kernel;
} Idle;

#define RECENT 16

/* The part of a runtime that kernels on workers see. It outlives the Python object if the object dies
 * inside of a kernel. */
typedef struct Core {
    pto_runtime *rt; /* NULL: closed */
    uint64_t number; /* of the runtimes of this process, from 1 on */
    unsigned long thread;
    atomic_bool
        away;  /* the orchestrating thread does not hold the GIL: read by workers without it */
    bool busy; /* the orchestrating thread is in a call of the library */
    bool
        closing; /* core_close is running: no other thread may use it, and only that call frees it */
    bool orphan;          /* the Runtime died meanwhile: who called core_close frees the core */
    PyThreadState *saved; /* its state, while it does not hold the GIL; NULL: it does */
    bool released;        /* by begin_wait: end_wait takes it again */
    bool interrupted;     /* the hook has left an exception in the orchestrating thread */
    PyObject *caught;     /* of a signal handler, while that thread ran a kernel; NULL: none */
    uint32_t ranges;      /* that are open */
    bool explains;        /* tasks keep their tensors for pto.explain */
    bool has_arrival;     /* `arrival` is registered */
    pto_kernel arrival;   /* arrival.c */
    uint64_t asked_ms;    /* when signals were last checked */
    int process;
    /* Kernels: registry.c */
    struct Registered *registered;
    size_t n_registered, room_registered;
    PyObject *places;  /* dict: what was submitted -> its place in `registered` */
    PyObject *handles; /* dict: identity of a kernel -> its handle, and the first such kernel */
    Recent recent[RECENT];
    /* The failure that waits report is that of the task that was submitted first. So is the exception that
     * is kept: with any number of failures, in any order of execution. */
    PyObject *exception; /* NULL: none */
    pto_task exception_task;
    uint64_t exception_order;
    PyObject *heap; /* base of arrays over managed memory: call.c. NULL: none was made */
    /* Jobs of tasks that may not be complete, oldest first: a ring of job_mask + 1. job.c */
    Job **jobs;
    uint64_t job_head, job_tail;
    uint64_t submitted; /* tasks so far; calls other than submit ask the library again */
    uint64_t job_mask;
    Job *spare; /* a list: small ones to use again */
    uint32_t n_spare;
    /* Memory of failed tasks: poison.c */
    unsigned c_failures; /* of C functions, in all runtimes, that this one knows of: prototype.c */
    bool damaged;        /* a task has failed, as far as this side knows */
    PyObject
        *poisoned; /* dict: address -> what keeps memory that a bad task was to write; NULL: none */
    Py_ssize_t sweep_in; /* submits until the next look at them */
    Idle healer;
    Idle joiner;       /* builtin.c */
    struct Core *next; /* list of all that are open: module.c */
} Core;

typedef struct Runtime {
    PyObject_HEAD Core *core;
    PyObject *weak;
} Runtime;

static inline void core_release(Core *core)
{
    core->saved = PyEval_SaveThread();
    atomic_store_explicit(&core->away, true, memory_order_relaxed); /* a hint */
}

static inline void core_acquire(Core *core)
{
    PyThreadState *state = core->saved;
    atomic_store_explicit(&core->away, false, memory_order_relaxed);
    PyEval_RestoreThread(state);
    core->saved = NULL;
}

/* Around calls of the library. A call that may take long, or that ends threads, releases the GIL at once
 * (leave). A submit keeps it (begin), since releasing it costs as much as the submit, and makes workers that
 * wait for it fight for it. When it has to wait, or to run other tasks, the library calls back, and the GIL
 * is released then: pto_set_wait_hooks. */
static inline void core_begin(Core *core)
{
    core->busy = true;
}

static inline void core_end(Core *core)
{
    core->busy = false;
}

static inline void core_leave(Core *core)
{
    core->busy = true;
    core_release(core);
}

static inline void core_back(Core *core)
{
    core_acquire(core);
    core->busy = false;
}

Core *core_new(const pto_config *config, bool explains); /* NULL with an exception */

/* Submits a task without work that accesses one tensor. Its kernel is registered when it is first needed. */
RARE pto_status core_submit_idle(Core *core, Idle *idle, const char *name, pto_param param,
                                 pto_task *task, const char *file, int line);

/* The status of a call that may have run kernels: PTO_INTERRUPTED if a signal handler raised
 * an exception in one of them. */
static inline pto_status core_status(const Core *core, pto_status s)
{
    return core->caught ? PTO_INTERRUPTED : s;
}

/* Calls that any thread may make ask this instead of core_enter. */
static inline bool core_is_open(const Core *core)
{
    return core && core->rt && !core->closing;
}

/* Checks that the calling thread may use the runtime now; else sets an exception. From then on, whatever may run
 * code of the program stands between core_begin and core_end: that code could close the runtime. */
bool core_enter(Core *core, const char *what);

/* Destroys the runtime of a core, with all that its tasks hold. Returns the status. Other threads run meanwhile, and so
 * does what the end of an array runs: a caller that does not hold the Runtime looks at `orphan` afterwards. */
pto_status core_close(Core *core, pto_ending ending);
void core_free(Core *core);
void core_free_later(Core *core); /* when no kernel of it runs on this thread any more */

/* All open runtimes: at exit they are cancelled. */
void core_list_add(Core *core);
void core_list_remove(Core *core);
extern bool exiting; /* the interpreter is about to end: runtimes can neither be made nor used */

/* ---- Kernels: kernel.c ---- */

typedef enum Style {
    STYLE_PYTHON,    /* a Python function */
    STYLE_CALL,      /* a C function with the signature of pto/kernel.h */
    STYLE_PROTOTYPE, /* any C function */
} Style;

typedef struct Parameter {
    char kind;          /* 'i' in, 'o' out, 'u' in and out, 's' a scalar */
    const Dtype *dtype; /* NULL: any */
    int8_t ndim;        /* -1: any */
    bool dense;         /* the function gets a pointer alone */
} Parameter;

typedef struct Kernel {
    PyObject_HEAD Style style;
    pto_worker_type type;
    char *name;
    PyObject *text;     /* the name as a string, for tasks */
    PyObject *callable; /* of a Python function; keeps a library loaded else */
    PyObject *spare;    /* its arguments, a tuple for the next call; NULL: none. call.c */
    void (*address)(void);
    char *declaration; /* for pto_kernel_declare; NULL: none */
    char result;       /* of a prototype: 'v' void, 'i' int, 0 is success */
    bool variadic;     /* the last parameter may be repeated */
    uint16_t least, count;
    uint8_t words, numbers; /* of a prototype: registers that its arguments need */
    bool stream;            /* of a prototype: the stream of the call is its last argument */
    Parameter *parameters;
    PyObject *variants; /* dict: type of a device -> Kernel; NULL: none */
    bool registered;    /* with a runtime: variants cannot be added any more */
} Kernel;

/* A kernel as registered with one runtime. */
typedef struct Registered {
    Kernel *kernel;
    PyObject *object; /* what was submitted */
    pto_kernel handle;
} Registered;

extern PyTypeObject *kernel_type, *tensor_type, *task_type, *memory_type, *heap_type, *scope_type,
    *runtime_type, *view_type;

PyObject *kernel_new(PyObject *module, PyObject *args, PyObject *kwargs);

/* Finds what is submitted, and registers it if it is new; NULL with an exception. The result is good until the
 * next call. registry.c */
Registered *kernel_find(Core *core, PyObject *object);
int registry_visit(const Core *core, visitproc visit, void *arg);
void registry_free(Core *core);
extern PyObject *method_type; /* of bound methods: types.MethodType */

/* Counts the registers that its arguments need; false with an exception if they are too many. */
bool prototype_check(Kernel *kernel);

/* The kernel function of prototypes; `user` is the Kernel. Counts failures: any thread writes, without order, because
 * the library tells who has failed. */
extern atomic_uint prototype_failures;
pto_status kernel_call_prototype(const pto_call *call);

/* ---- Arguments: argument.c ---- */

/* An array argument, resolved. Its tensor fills whole cache lines: stores that cross two would delay the
 * library, which compares it at once. */
typedef struct Argument {
    _Alignas(64) pto_tensor own;
    const pto_tensor *tensor; /* &own, or that of a Tensor */
    const Dtype *dtype; /* NULL: another type, whose elements are an additional dim of bytes */
    PyObject *descr;    /* then: the NumPy dtype, borrowed from `keep` */
    PyObject *keep;     /* what keeps the memory alive; NULL: managed */
    bool keep_is_new;   /* the reference is ours; else it is borrowed from the object */
    bool readonly;
    bool lost; /* nobody else refers to the memory: a write to it would be lost */
} Argument;

/* Whether the tensor says what the elements are: C code that looks at its dtype then sees the right one. */
static inline bool argument_tells_dtype(const Argument *argument)
{
    return argument->dtype && !argument->dtype->foreign;
}

/* Sets the tensor from a shape, and strides in bytes. Its storage is what the elements span. Elements of a
 * type that is not known become a dim of `bytes` more. Returns NULL, or what is wrong, for argument_refuse. */
const char *argument_span(Argument *argument, char *data, int ndim, const Py_ssize_t *shape,
                          const Py_ssize_t *strides, int64_t bytes);
RARE bool argument_refuse(const char *wrong, const char *who, Py_ssize_t index); /* false */

/* Whether only the stack of the caller refers to an argument. From Python 3.14 on that cannot be seen: local
 * variables are not counted there while they are arguments. */
static inline bool argument_is_temporary(PyObject *object)
{
    return Py_REFCNT(object) == 1 && Py_Version < 0x030e0000;
}

/* Whether the object is an array of any kind, or a list with one, so that it needs an annotation. */
bool argument_is_array(PyObject *object);

/* ---- Tensors: tensor.c ---- */

typedef struct Tensor {
    PyObject_HEAD pto_tensor t;
    const Dtype *dtype;
    PyObject *descr; /* as in Argument, but owned */
    PyObject *keep;  /* memory, or NULL: managed */
    bool readonly;
} Tensor;

PyObject *tensor_new(const pto_tensor *t, const Dtype *dtype, PyObject *descr, PyObject *keep,
                     bool readonly);
PyObject *tensor_shape(const int64_t *sizes, int32_t n, int64_t scale);
bool tensor_read_shape(PyObject *object, int64_t *shape, int32_t *ndim);
bool tensor_is_bytes(const Tensor *tensor); /* the last dim is not one of the program */

/* ---- Any object as an argument ---- */

extern PyTypeObject *numpy_array; /* the type of arrays; NULL: NumPy is not loaded */
bool numpy_resolve(PyObject *array, Argument *argument, const char *who, Py_ssize_t index);
RARE bool argument_of_other(PyObject *object, Argument *argument, const char *who,
                            Py_ssize_t index);

/* Resolves an object. `index` and `who` name it in messages. Returns false with an exception. May run code of
 * the program (__dlpack__), so the runtime is kept busy meanwhile. */
static inline bool argument_of(PyObject *object, Argument *argument, const char *who,
                               Py_ssize_t index)
{
    if (Py_TYPE(object) == tensor_type) {
        const Tensor *tensor = (const Tensor *)(const void *)object;
        argument->tensor = &tensor->t;
        argument->dtype = tensor->dtype;
        argument->descr = tensor->descr;
        argument->keep = tensor->keep;
        argument->keep_is_new = false;
        argument->readonly = tensor->readonly;
        argument->lost = false;
        return true;
    }
    return Py_TYPE(object) == numpy_array ? numpy_resolve(object, argument, who, index)
                                          : argument_of_other(object, argument, who, index);
}

/* ---- Memory of other libraries on a GPU: arrival.c ---- */

typedef struct Arrival Arrival;

/* Whether another library may still be working on the memory of an argument: on a GPU, if it was just
 * imported. Before it is used, arrival_submit or arrival_wait must order that work. */
static inline bool argument_arrives(const Argument *argument)
{
    return argument->keep_is_new && argument->tensor->device.type != PTO_DEVICE_CPU;
}

Arrival *argument_arrival(const Argument *argument); /* of one that arrives: argument.c */

Arrival *arrival_new(int index); /* for nvidia:index; NULL with an exception */
void arrival_free(Arrival *arrival);
uintptr_t arrival_stream(const Arrival *arrival); /* that the producer has to make wait */

/* Submits a task that waits for the producer. Later tasks follow it if they name it (pto_after), or if it is
 * exclusive: then each one that touches the memory does. */
RARE pto_status arrival_submit(Core *core, const Argument *argument, bool exclusive, pto_task *task,
                               const char *file, int line);
RARE bool arrival_wait(const Argument *argument); /* waits here; false with an exception */

/* Afterwards. */
static inline void argument_drop(const Argument *argument)
{
    if (argument->keep_is_new) {
        Py_DECREF(argument->keep);
    }
}

/* ---- Jobs: job.c ---- */

typedef struct Slot {
    PyObject *object; /* what the task keeps alive, or a scalar of a Python kernel; may be NULL */
    PyObject *descr;  /* of an array of another type: owned */
    const Dtype *dtype;
    char kind; /* of the parameter */
    bool managed;
    bool borrowed; /* `object` is; only until submit returns */
} Slot;

/* What one call of submit, or several tasks of one call, keep alive. */
struct Job {
    union {
        uint64_t until; /* complete when this many of the first tasks are */
        Job *next;      /* in the list of spare ones */
    };
    Core *core;
    Kernel *kernel; /* NULL: none. Borrowed until the job is held */
    bool held;      /* the task was not complete when submit returned: the job has references */
    bool managed;   /* some slot is; set for Python kernels */
    pto_task task;  /* 0: of no use to poisoned_keep */
    uint64_t order; /* of a Python kernel: tasks submitted before it */
    uint32_t count; /* slots in use: all their fields are set */
    uint32_t room;
    Slot slots[];
};

Job *job_new(Core *core, Kernel *kernel, Py_ssize_t most); /* NULL with an exception */
void job_free(Job *job);
void jobs_free_spare(Core *core);
bool job_reserve(Core *core);                    /* room for one more; sets an exception */
void job_commit(Core *core, Job *job, bool one); /* after the submit. one: of one task */
void jobs_release(Core *core);                   /* drops those that are complete */
int jobs_visit(const Core *core, visitproc visit, void *arg);
void slot_hold(Slot *slot); /* takes references to what is borrowed */

/* ---- Memory of failed tasks: poison.c ---- */

/* What is known of Memory, which stands for memory of other libraries: argument.c */
PyObject *
memory_whole(PyObject *memory); /* of the owner, if it is of a memoryview: a new reference */
void *memory_address(PyObject *memory);
const Py_buffer *memory_owned(PyObject *memory); /* of an owner that nobody can use unseen; NULL */

void poisoned_keep(Core *core, const Job *job); /* of a complete task, if that was bad */
bool poisoned_sweep(Core *core);                /* before a submit; false with an exception */

/* ---- Methods of pto.Runtime ---- */

bool config_read(PyObject *options, pto_config *config, bool *explains); /* config.c */

PyObject *runtime_submit(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *runtime_wait(PyObject *self, PyObject *args);
PyObject *runtime_sync(PyObject *self, PyObject *args);
PyObject *runtime_read(PyObject *self, PyObject *object);
PyObject *runtime_clear_error(PyObject *self, PyObject *unused);
PyObject *runtime_temp(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *runtime_empty(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *runtime_release(PyObject *self, PyObject *object);
PyObject *runtime_scope(PyObject *self, PyObject *unused);
PyObject *runtime_boundary(PyObject *self, PyObject *unused);
PyObject *runtime_range(PyObject *self, PyObject *name);
PyObject *runtime_stats(PyObject *self, PyObject *unused);
PyObject *runtime_adopt(PyObject *module, PyObject *type); /* the Python class of runtimes */
PyObject *builtin_copy(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *builtin_rearrange(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *builtin_fill(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *builtin_gather(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *builtin_scatter(PyObject *self, PyObject *const *args, Py_ssize_t n);

/* ---- Tasks: task.c ---- */

typedef struct Task {
    PyObject_HEAD pto_task task;
    uint64_t runtime;    /* number of its runtime */
    uint64_t order;      /* tasks submitted before it */
    PyObject *kernel;    /* its name. Not the Kernel: it may refer to what has the task */
    const char *builtin; /* its name if `kernel` is NULL */
    const char *file;
    int line;
    PyObject *accesses; /* for pto.explain: a tuple of (index, kind, Tensor); NULL: none */
    PyObject *after;    /* for pto.explain: a list of the orders of its after=; NULL: none */
} Task;

PyObject *task_new(const Core *core, pto_task task, uint64_t order, Kernel *kernel,
                   const char *file, int line);

/* Adds an access to a list of them: for Task.accesses. false with an exception. */
bool task_list_access(PyObject *list, Py_ssize_t index, char kind, const Argument *a);

void task_forget(void); /* lets go of the task that would be used again */

/* The file and line of the Python code that called (site.c). The name of the file lives for ever. */
const char *where(int *line);
const char *core_where(Core *core, int *line); /* after core_enter, which stays true */

/* ---- Python kernels: call.c ---- */

pto_status call_python(const pto_call *call);
bool call_is_inside(void);          /* this thread runs a kernel */
bool call_prepare_heap(Core *core); /* before a Python kernel with managed arguments is submitted */
int call_setup(void);

/* A memoryview, for programs without NumPy, of memory that `base` keeps alive. Strides count elements; NULL: dense. */
PyObject *view_make(const Dtype *dtype, int ndim, const int64_t *shape, const int64_t *strides,
                    void *data, bool writable, PyObject *base);

/* ---- NumPy: numpy_abi.c ---- */

bool numpy_load(void);   /* whether NumPy is loaded and usable; cheap once it is known */
bool numpy_loaded(void); /* the same, without a new attempt */
bool numpy_is_array(PyObject *object);
PyObject *
numpy_owner(PyObject *object); /* the array that has the memory, borrowed; NULL: no array has */
bool numpy_is_scalar(PyObject *object);
bool numpy_is_bool(PyObject *object);    /* a scalar */
bool numpy_is_swapped(PyObject *object); /* a dtype, with the bytes in the other order */

/* The size of the elements of a dtype; false with an exception: they are none for a task. `who` has it. */
bool numpy_size(PyObject *descr, const char *who, int64_t *bytes);

/* Makes an array over memory that `base` keeps alive (a reference of the array's own), or with memory
 * of its own if `data` is NULL. Strides count elements. */
PyObject *numpy_make(const Dtype *dtype, PyObject *descr, int ndim, const int64_t *shape,
                     const int64_t *strides, void *data, bool writable, PyObject *base);
void *numpy_data(PyObject *array);

/* An array of this type lets go of memory that is not its own; false: something else may still use it. */
bool numpy_put_away(PyObject *array, const Dtype *dtype);

/* Such an array gets other memory; false: it is not as numpy_make would make it. Both take any object. */
bool numpy_use_again(PyObject *array, const Dtype *dtype, int ndim, const int64_t *shape,
                     const int64_t *strides, void *data, bool writable, PyObject *base);

/* ---- Errors: error.c ---- */

/* Raises pto.Error for a status, with the detail of this thread. `core` may be NULL. Acknowledges a
 * refused call. Returns NULL. */
RARE PyObject *error_raise(Core *core, pto_status status, const char *file, int line);
PyObject *error_setup(PyObject *module, PyObject *args);

/* The text of a string, for as long as the object lives. `what` names it in messages. NULL with an exception. */
const char *text_of(PyObject *object, const char *what);

/* ---- BLAS ---- */
PyObject *blas_kernel(PyObject *module, PyObject *args);

#endif /* PTO_BINDING_H */
