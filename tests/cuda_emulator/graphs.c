/* Capture and replay: a graph is the list of what was queued on a capturing stream. */
#include "emulator.h"

#include <stdint.h>

struct graph {
    struct object object; /* KIND_GRAPH or KIND_EXECUTABLE */
    struct work_list items;
};

void invalidate(struct stream *stream, const char *why)
{
    if (stream->capture != CAPTURE_ACTIVE) return;
    stream->capture = CAPTURE_INVALIDATED;
    fault(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture of stream %p is invalid: %s", stream->object.handle, why);
}

CUresult check_capture(const struct stream *stream)
{
    if (stream->capture != CAPTURE_INVALIDATED) return CUDA_SUCCESS;
    return fault(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture of stream %p was invalidated before",
                 stream->object.handle);
}

CUresult refuse_on_stream(struct stream *stream)
{
    if (stream->capture == CAPTURE_NONE) return CUDA_SUCCESS;
    invalidate(stream, "it was synchronised, queried or destroyed");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static int tolerates(const struct stream *stream, enum unsafe unsafe)
{
    if (stream->capture == CAPTURE_NONE) return 1;
    if (unsafe == UNSAFE_ALWAYS || stream->capture_mode == CAPTURE_GLOBAL) return 0;
    return stream->capture_mode == CAPTURE_RELAXED || !pthread_equal(stream->capture_thread, pthread_self());
}

CUresult refuse_in_capture(enum unsafe unsafe)
{
    CUresult result = CUDA_SUCCESS;
    for (struct stream *stream = first_stream(); stream; stream = stream->next) {
        if (tolerates(stream, unsafe)) continue;
        invalidate(stream, "a call that no capture allows was made");
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

static CUresult begin(CUhandle handle, unsigned mode)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (mode > CAPTURE_RELAXED) return fault(CUDA_ERROR_INVALID_VALUE, "mode %u", mode);
    if (stream->capture != CAPTURE_NONE) return fault(CUDA_ERROR_ILLEGAL_STATE, "stream %p captures already", handle);
    stream->capture = CAPTURE_ACTIVE;
    stream->capture_mode = mode;
    stream->capture_thread = pthread_self();
    return CUDA_SUCCESS;
}

static CUhandle new_graph(enum kind kind, const struct work_list *items)
{
    struct graph *graph = new_object(kind, sizeof *graph);
    append_copies(&graph->items, items);
    counters.graphs_live++;
    return graph->object.handle;
}

static CUresult check_end(const struct stream *stream)
{
    if (stream->capture == CAPTURE_NONE)
        return fault(CUDA_ERROR_ILLEGAL_STATE, "stream %p does not capture", stream->object.handle);
    if (stream->capture_mode == CAPTURE_RELAXED || pthread_equal(stream->capture_thread, pthread_self()))
        return CUDA_SUCCESS;
    return fault(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture");
}

static CUresult end(CUhandle handle, CUhandle *graph)
{
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = check_end(stream);
    if (result != CUDA_SUCCESS) return result;
    int valid = stream->capture == CAPTURE_ACTIVE;
    stream->capture = CAPTURE_NONE;
    if (valid) *graph = new_graph(KIND_GRAPH, &stream->captured);
    clear_work(&stream->captured);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

static CUresult get_state(CUhandle handle, int *state, unsigned long long *id)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = stream->capture;
    if (id) *id = (uintptr_t)handle;
    return CUDA_SUCCESS;
}

static CUresult instantiate(CUhandle *executable, CUhandle handle)
{
    if (!executable) return CUDA_ERROR_INVALID_VALUE;
    *executable = NULL;
    const struct graph *graph = find_object(handle, KIND_GRAPH);
    if (!graph) return CUDA_ERROR_INVALID_HANDLE;
    *executable = new_graph(KIND_EXECUTABLE, &graph->items);
    return CUDA_SUCCESS;
}

/* The items go into the queue themselves, so that a graph destroyed before they run leaves nothing dangling. */
static CUresult launch(CUhandle handle, CUhandle stream_handle)
{
    const struct graph *graph = find_object(handle, KIND_EXECUTABLE);
    struct stream *stream = graph ? find_stream(stream_handle) : NULL;
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = check_capture(stream);
    if (result != CUDA_SUCCESS) return result;
    counters.graph_launches++;
    for (const struct work *work = graph->items.first; work; work = work->next) enqueue(stream, work);
    return CUDA_SUCCESS;
}

static CUresult upload(CUhandle handle, CUhandle stream)
{
    return find_object(handle, KIND_EXECUTABLE) && find_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void destroy_graph(struct object *object)
{
    struct graph *graph = (struct graph *)object;
    clear_work(&graph->items);
    object->live = 0;
    counters.graphs_live--;
}

static CUresult destroy(CUhandle handle, enum kind kind)
{
    struct object *object = find_object(handle, kind);
    if (!object) return CUDA_ERROR_INVALID_HANDLE;
    destroy_graph(object);
    return CUDA_SUCCESS;
}

/* The first form knew no modes; the name without a suffix still means it, as in the real library. */
EXPORT CUresult cuStreamBeginCapture(CUhandle stream) { RUN(NEEDS_CONTEXT, begin(stream, CAPTURE_GLOBAL)); }
EXPORT CUresult cuStreamBeginCapture_v2(CUhandle stream, unsigned mode) { RUN(NEEDS_CONTEXT, begin(stream, mode)); }
EXPORT CUresult cuStreamEndCapture(CUhandle stream, CUhandle *graph) { RUN(NEEDS_CONTEXT, end(stream, graph)); }
EXPORT CUresult cuStreamIsCapturing(CUhandle stream, int *state) { RUN(NEEDS_CONTEXT, get_state(stream, state, NULL)); }

/* The later forms also tell the graph and its edges, which no caller here may rely on. */
EXPORT CUresult cuStreamGetCaptureInfo_v3(CUhandle stream, int *state, unsigned long long *id, CUhandle *graph,
                                          void **nodes, void **edges, size_t *count)
{
    if (graph) *graph = NULL;
    if (nodes) *nodes = NULL;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    RUN(NEEDS_CONTEXT, get_state(stream, state, id));
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUhandle stream, int *state, unsigned long long *id, CUhandle *graph,
                                          void **nodes, size_t *count)
{
    return cuStreamGetCaptureInfo_v3(stream, state, id, graph, nodes, NULL, count);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUhandle *executable, CUhandle graph, unsigned long long flags)
{
    (void)flags;
    RUN(NEEDS_CONTEXT, instantiate(executable, graph));
}

EXPORT CUresult cuGraphInstantiate_v2(CUhandle *executable, CUhandle graph, CUhandle *error_node, char *log,
                                      size_t log_bytes)
{
    if (error_node) *error_node = NULL;
    if (log && log_bytes) *log = 0;
    RUN(NEEDS_CONTEXT, instantiate(executable, graph));
}

EXPORT CUresult cuGraphLaunch(CUhandle executable, CUhandle stream) { RUN(NEEDS_CONTEXT, launch(executable, stream)); }
EXPORT CUresult cuGraphUpload(CUhandle executable, CUhandle stream) { RUN(NEEDS_CONTEXT, upload(executable, stream)); }
EXPORT CUresult cuGraphDestroy(CUhandle graph) { RUN(NEEDS_CONTEXT, destroy(graph, KIND_GRAPH)); }
EXPORT CUresult cuGraphExecDestroy(CUhandle executable) { RUN(NEEDS_CONTEXT, destroy(executable, KIND_EXECUTABLE)); }

ALIAS(cuGraphInstantiate, cuGraphInstantiate_v2);
