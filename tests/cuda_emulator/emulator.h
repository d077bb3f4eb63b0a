/* What the parts of the emulated CUDA driver know of each other.
 *
 * Every public function is one RUN(...) line: it takes the one lock, counts the call, refuses what CUDA refuses, does
 * its work and unlocks. Everything declared below is called with the lock held, unless a comment says otherwise. */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <pthread.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
/* The driver exports old and new names of one function; where the arguments are the same, one body serves both. */
#define ALIAS(name, target) extern __typeof__(target) name EXPORT __attribute__((alias(#target)))

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUhandle; /* a context, stream, event or graph: never dereferenced, always looked up */
typedef void (*host_function)(void *argument);

#define ERRORS(X)                                                                                                \
    X(CUDA_SUCCESS, 0, "no error")                                                                               \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                           \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                              \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                                     \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                           \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                  \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                                 \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                                 \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                   \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                       \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                                             \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                               \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                                 \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                              \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                                  \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                               \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                                  \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")            \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")     \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "dependency created on uncaptured work in another stream")       \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, "operation not permitted on an event last recorded in a capturing stream") \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                               \
      "attempt to terminate a thread-local capture sequence from another thread")                                \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

#define ENUM_ENTRY(name, code, description) name = code,
enum { ERRORS(ENUM_ENTRY) };

/* calls.c: the lock, counting, injected failures, faults. */
enum needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT };

#define RUN(needs, work)                               \
    do {                                               \
        CUresult result_ = enter(__func__, needs);     \
        if (result_ == CUDA_SUCCESS) result_ = (work); \
        return leave(result_);                         \
    } while (0)

struct counters {
    unsigned long long calls, bytes_up, bytes_down, bytes_device, unpinned_copies, faults, device_allocations,
        pinned_allocations, device_live, pinned_live, device_live_count, pinned_live_count, streams_live, events_live,
        graphs_live, contexts_retained, leaked, host_functions, graph_launches;
};
extern struct counters counters;

CUresult enter(const char *function, enum needs needs);
CUresult leave(CUresult result);
void lock(void);
void unlock(void);
void wait_for_change(void); /* gives the lock away meanwhile */
void tell_change(void);
const char *this_function(void);
/* Writes the sentence that emu_last_fault shows, counts it, and returns `code`. */
CUresult fault(CUresult code, const char *format, ...) __attribute__((format(printf, 2, 3)));
CUresult lose_device(CUresult code);
CUresult device_lost(void); /* CUDA_SUCCESS while it lives */
/* Without the lock: the function may be Python and want the GIL, which a thread waiting for the lock may hold. */
void run_unlocked(host_function function, void *argument, int may_call_cuda);

/* handles.c: an object is kept after its destruction, so that no handle is used twice and a stale one is found out. */
enum kind { KIND_CONTEXT, KIND_STREAM, KIND_EVENT, KIND_GRAPH, KIND_EXECUTABLE };
struct object {
    enum kind kind;
    int live;
    CUhandle handle;
};
void *new_object(enum kind kind, size_t size);
void *find_object(CUhandle handle, enum kind kind); /* NULL for anything but a live one; the fault is written */
void each_live_object(void (*visit)(struct object *object));

/* device.c */
extern unsigned long long total_memory, desktop_memory;
int initialized(void);
CUresult require_context(void);

/* memory.c */
enum place { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE };
enum place place_of(CUdeviceptr address);
int inside(CUdeviceptr address, size_t bytes, enum place place);
void free_everything(void);

/* work.c: what streams execute. */
enum work_kind { WORK_COPY, WORK_FILL, WORK_HOST, WORK_RECORD, WORK_WAIT };
struct operand {
    CUdeviceptr address;
    size_t pitch;
    enum place place;
};
struct work {
    struct work *next;
    enum work_kind kind;
    const char *function; /* who queued it */
    struct operand to, from;
    size_t width, height; /* bytes and rows of a copy or fill */
    unsigned pattern, pattern_bytes;
    host_function host;
    void *argument;
    int may_call_cuda;
    struct event *event;
    struct stream *awaited;
    unsigned long long position;
};
struct work_list {
    struct work *first, *last;
};
void append_work(struct work_list *list, const struct work *work);
void append_copies(struct work_list *list, const struct work_list *more);
void clear_work(struct work_list *list);
struct work *take_work(struct work_list *list);
void execute(const struct work *work);
size_t span(const struct work *work, const struct operand *operand);

/* streams.c and events.c */
enum capture_state { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED };
enum capture_mode { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
struct stream {
    struct object object;
    struct stream *next;
    struct work_list queue;
    unsigned long long queued, executed; /* positions: how many items were ever queued and executed */
    int busy;
    pthread_t worker;
    enum capture_state capture;
    enum capture_mode capture_mode;
    pthread_t capture_thread;
    struct work_list captured;
};
struct event {
    struct object object;
    int untimed, captured;
    struct stream *stream; /* of the latest record, NULL before the first */
    unsigned long long position;
    double seconds;
};
struct stream *first_stream(void);
struct stream *find_stream(CUhandle handle); /* refuses the default streams too */
CUresult enqueue(struct stream *stream, const struct work *work);
CUresult drain(struct stream *stream, unsigned long long position);
CUresult drain_all(void);
void note_record(const struct work *work);
void destroy_streams(void);

/* graphs.c */
enum unsafe { UNSAFE_ALWAYS, UNSAFE_UNLESS_RELAXED };
CUresult check_capture(const struct stream *stream); /* an error once it is invalidated */
CUresult refuse_in_capture(enum unsafe unsafe);
CUresult refuse_on_stream(struct stream *stream);
void invalidate(struct stream *stream, const char *why);
void destroy_graph(struct object *object);

#endif
