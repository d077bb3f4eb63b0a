/* Events: a position in a stream's queue. */
#include "emulator.h"

#include <time.h>

#define DISABLE_TIMING 2 /* CU_EVENT_DISABLE_TIMING */
#define LAST_FLAGS 7

static struct event *find_event(CUhandle handle) { return find_object(handle, KIND_EVENT); }

/* An event that was never recorded counts as complete, in CUDA too. */
static int is_complete(const struct event *event)
{
    return !event->stream || event->stream->executed >= event->position;
}

static CUresult create(CUhandle *handle, unsigned flags)
{
    if (!handle || flags > LAST_FLAGS) return fault(CUDA_ERROR_INVALID_VALUE, "flags %#x", flags);
    struct event *event = new_object(KIND_EVENT, sizeof *event);
    event->untimed = (flags & DISABLE_TIMING) != 0;
    counters.events_live++;
    *handle = event->object.handle;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUhandle handle)
{
    struct event *event = find_event(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    event->object.live = 0;
    counters.events_live--;
    return CUDA_SUCCESS;
}

/* In a capture a record is no work: it only marks the event as part of that capture. */
static CUresult record(CUhandle handle, CUhandle stream_handle)
{
    struct event *event = find_event(handle);
    struct stream *stream = event ? find_stream(stream_handle) : NULL;
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = check_capture(stream);
    if (result != CUDA_SUCCESS) return result;
    event->captured = stream->capture == CAPTURE_ACTIVE;
    event->stream = stream;
    event->position = stream->queued + !event->captured;
    struct work work = {.kind = WORK_RECORD,
                        .function = this_function(),
                        .event = event,
                        .awaited = stream,
                        .position = event->position};
    return event->captured ? CUDA_SUCCESS : enqueue(stream, &work);
}

void note_record(const struct work *work)
{
    struct event *event = work->event;
    struct timespec now;
    if (event->stream != work->awaited || event->position != work->position) return; /* recorded again since */
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* An event of a capture stands for no moment in time. */
static CUresult refuse_captured(const struct event *event)
{
    if (!event->captured) return CUDA_SUCCESS;
    if (event->stream->capture == CAPTURE_ACTIVE)
        invalidate(event->stream, "an event recorded in it was waited for or queried");
    return fault(CUDA_ERROR_CAPTURED_EVENT, "event %p was last recorded in a capture", event->object.handle);
}

static CUresult synchronize(CUhandle handle)
{
    struct event *event = find_event(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = refuse_captured(event);
    if (result != CUDA_SUCCESS || is_complete(event)) return result;
    return drain(event->stream, event->position);
}

static CUresult query(CUhandle handle)
{
    struct event *event = find_event(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = refuse_captured(event);
    if (result == CUDA_SUCCESS) result = refuse_in_capture(UNSAFE_UNLESS_RELAXED);
    if (result != CUDA_SUCCESS) return result;
    return is_complete(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult check_timed(const struct event *event)
{
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->untimed || !event->stream)
        return fault(CUDA_ERROR_INVALID_HANDLE, "event %p has no time: timing is disabled, or it was never recorded",
                     event->object.handle);
    CUresult result = refuse_captured(event);
    if (result != CUDA_SUCCESS) return result;
    return is_complete(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult elapsed(float *milliseconds, CUhandle start_handle, CUhandle end_handle)
{
    const struct event *start = find_event(start_handle), *end = find_event(end_handle);
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_timed(start);
    if (result == CUDA_SUCCESS) result = check_timed(end);
    if (result == CUDA_SUCCESS) *milliseconds = (float)((end->seconds - start->seconds) * 1e3);
    return result;
}

/* Joining two streams in one capture is real CUDA, but no emulated one: it is refused rather than half done. */
static CUresult wait_in_capture(struct stream *stream, const struct event *event)
{
    if (event->captured && event->stream == stream) return CUDA_SUCCESS;
    if (stream->capture == CAPTURE_ACTIVE) invalidate(stream, "it waited for an event from outside the capture");
    if (event->captured && event->stream->capture == CAPTURE_ACTIVE)
        invalidate(event->stream, "another stream waited for its event");
    return fault(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a capture and another stream wait for each other");
}

static CUresult wait_event(CUhandle handle, CUhandle event_handle, unsigned flags)
{
    struct stream *stream = find_stream(handle);
    struct event *event = stream ? find_event(event_handle) : NULL;
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (flags) return fault(CUDA_ERROR_INVALID_VALUE, "flags %#x", flags);
    CUresult result = check_capture(stream);
    if (result != CUDA_SUCCESS) return result;
    if (stream->capture == CAPTURE_ACTIVE || event->captured) return wait_in_capture(stream, event);
    if (is_complete(event)) return CUDA_SUCCESS;
    struct work work = {
        .kind = WORK_WAIT, .function = this_function(), .awaited = event->stream, .position = event->position};
    return enqueue(stream, &work);
}

EXPORT CUresult cuEventCreate(CUhandle *event, unsigned flags) { RUN(NEEDS_CONTEXT, create(event, flags)); }
EXPORT CUresult cuEventDestroy_v2(CUhandle event) { RUN(NEEDS_CONTEXT, destroy(event)); }
EXPORT CUresult cuEventRecord(CUhandle event, CUhandle stream) { RUN(NEEDS_CONTEXT, record(event, stream)); }
EXPORT CUresult cuEventSynchronize(CUhandle event) { RUN(NEEDS_CONTEXT, synchronize(event)); }
EXPORT CUresult cuEventQuery(CUhandle event) { RUN(NEEDS_CONTEXT, query(event)); }

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUhandle start, CUhandle end)
{
    RUN(NEEDS_CONTEXT, elapsed(milliseconds, start, end));
}

EXPORT CUresult cuStreamWaitEvent(CUhandle stream, CUhandle event, unsigned flags)
{
    RUN(NEEDS_CONTEXT, wait_event(stream, event, flags));
}

ALIAS(cuEventDestroy, cuEventDestroy_v2);
ALIAS(cuEventElapsedTime, cuEventElapsedTime_v2);
