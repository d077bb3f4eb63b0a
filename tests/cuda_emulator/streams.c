/* Streams: queues that are executed only when something waits for them. */
#include "emulator.h"

#include <stdint.h>
#include <stdlib.h>

#define LAST_DEFAULT_STREAM 2 /* NULL, the legacy and the per-thread default stream */
#define LAST_FLAG 1           /* CU_STREAM_NON_BLOCKING */

static struct stream *streams;

struct stream *first_stream(void) { return streams; }

struct stream *find_stream(CUhandle handle)
{
    if ((uintptr_t)handle > LAST_DEFAULT_STREAM) return find_object(handle, KIND_STREAM);
    fault(CUDA_ERROR_INVALID_HANDLE, "default stream %p; a stream of one's own is asked for", handle);
    return NULL;
}

CUresult enqueue(struct stream *stream, const struct work *work)
{
    CUresult result = check_capture(stream);
    if (result != CUDA_SUCCESS) return result;
    if (stream->capture == CAPTURE_ACTIVE) {
        append_work(&stream->captured, work);
    } else {
        append_work(&stream->queue, work);
        stream->queued++;
    }
    return CUDA_SUCCESS;
}

static void execute_next(struct stream *stream)
{
    struct work *work = take_work(&stream->queue);
    stream->busy = 1;
    stream->worker = pthread_self();
    execute(work);
    free(work);
    stream->busy = 0;
    stream->executed++;
    tell_change();
}

static int runs_on_this_thread(const struct stream *stream)
{
    return stream->busy && pthread_equal(stream->worker, pthread_self());
}

CUresult drain(struct stream *stream, unsigned long long position)
{
    while (stream->executed < position && device_lost() == CUDA_SUCCESS) {
        if (runs_on_this_thread(stream))
            return fault(CUDA_ERROR_NOT_PERMITTED, "a queued function waits for its own stream");
        if (stream->busy) wait_for_change();
        else execute_next(stream);
    }
    return device_lost();
}

/* Not the stream whose function is calling: Python's garbage collector may free memory inside such a function. */
static struct stream *unfinished_stream(void)
{
    struct stream *stream = streams;
    while (stream && (stream->executed == stream->queued || runs_on_this_thread(stream))) stream = stream->next;
    return stream;
}

CUresult drain_all(void)
{
    struct stream *stream;
    CUresult result = device_lost();
    while (result == CUDA_SUCCESS && (stream = unfinished_stream())) result = drain(stream, stream->queued);
    return result;
}

static CUresult create(CUhandle *handle, unsigned flags)
{
    if (!handle || flags > LAST_FLAG) return fault(CUDA_ERROR_INVALID_VALUE, "flags %#x", flags);
    struct stream *stream = new_object(KIND_STREAM, sizeof *stream);
    stream->next = streams;
    streams = stream;
    counters.streams_live++;
    *handle = stream->object.handle;
    return CUDA_SUCCESS;
}

static void bury(struct stream *stream)
{
    struct stream **link = &streams;
    while (*link != stream) link = &(*link)->next;
    *link = stream->next;
    clear_work(&stream->queue);
    clear_work(&stream->captured);
    stream->executed = stream->queued; /* an event recorded here must not wait for ever */
    stream->object.live = 0;
    counters.streams_live--;
}

static CUresult destroy(CUhandle handle)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = refuse_on_stream(stream);
    if (result == CUDA_SUCCESS) result = drain(stream, stream->queued);
    if (result != CUDA_SUCCESS) return result;
    if (!find_stream(handle)) return CUDA_ERROR_INVALID_HANDLE; /* another thread destroyed it meanwhile */
    bury(stream);
    return CUDA_SUCCESS;
}

void destroy_streams(void)
{
    while (streams) {
        if (streams->busy && !runs_on_this_thread(streams)) {
            wait_for_change();
            continue;
        }
        counters.leaked++;
        bury(streams);
    }
}

static CUresult synchronize(CUhandle handle)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = refuse_on_stream(stream);
    return result == CUDA_SUCCESS ? drain(stream, stream->queued) : result;
}

static CUresult query(CUhandle handle)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = refuse_on_stream(stream);
    if (result != CUDA_SUCCESS) return result;
    return stream->executed < stream->queued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult queue_host_function(CUhandle handle, host_function function, void *argument)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!function) return fault(CUDA_ERROR_INVALID_VALUE, "no function");
    struct work work = {.kind = WORK_HOST, .function = this_function(), .host = function, .argument = argument};
    return enqueue(stream, &work);
}

EXPORT CUresult cuStreamCreate(CUhandle *stream, unsigned flags) { RUN(NEEDS_CONTEXT, create(stream, flags)); }

EXPORT CUresult cuStreamCreateWithPriority(CUhandle *stream, unsigned flags, int priority)
{
    (void)priority;
    RUN(NEEDS_CONTEXT, create(stream, flags));
}

EXPORT CUresult cuStreamDestroy_v2(CUhandle stream) { RUN(NEEDS_CONTEXT, destroy(stream)); }
EXPORT CUresult cuStreamSynchronize(CUhandle stream) { RUN(NEEDS_CONTEXT, synchronize(stream)); }
EXPORT CUresult cuStreamQuery(CUhandle stream) { RUN(NEEDS_CONTEXT, query(stream)); }

EXPORT CUresult cuLaunchHostFunc(CUhandle stream, host_function function, void *argument)
{
    RUN(NEEDS_CONTEXT, queue_host_function(stream, function, argument));
}

ALIAS(cuStreamDestroy, cuStreamDestroy_v2);
