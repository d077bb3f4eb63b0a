/* The emu_* functions: what a test reads and steers. None of them is counted as a driver call. */
#include "control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LENGTH 64
#define FUNCTIONS 256

static struct {
    char name[NAME_LENGTH];
    unsigned long long calls;
} functions[FUNCTIONS];

static struct {
    const char **names;
    size_t length, room;
    int on;
} call_log;

static struct {
    unsigned long long at; /* the value of counters.calls that fails; 0: none */
    CUresult code;
    int sticky, hit;
} failure;

static size_t base_length(const char *function)
{
    size_t length = strlen(function);
    if (length > 3 && function[length - 3] == '_' && function[length - 2] == 'v') length -= 3;
    return length;
}

static size_t function_index(const char *function)
{
    size_t length = base_length(function), index = 0;
    while (functions[index].name[0] &&
           (strlen(functions[index].name) != length || strncmp(functions[index].name, function, length)))
        if (++index == FUNCTIONS) abort();
    snprintf(functions[index].name, NAME_LENGTH, "%.*s", (int)length, function);
    return index;
}

static void log_call(const char *name)
{
    if (call_log.length == call_log.room) {
        call_log.room = call_log.room ? 2 * call_log.room : 256;
        call_log.names = realloc(call_log.names, call_log.room * sizeof *call_log.names);
        if (!call_log.names) abort();
    }
    call_log.names[call_log.length++] = name;
}

const char *count_call(const char *function)
{
    size_t index = function_index(function);
    counters.calls++;
    functions[index].calls++;
    if (call_log.on) log_call(functions[index].name);
    return functions[index].name;
}

CUresult injected_failure(void)
{
    if (!failure.at || counters.calls < failure.at || (failure.hit && !failure.sticky)) return CUDA_SUCCESS;
    failure.hit = 1;
    return failure.code;
}

static const struct {
    const char *name;
    const unsigned long long *value;
} statistics[] = {
#define STATISTIC(field) {#field, &counters.field}
    STATISTIC(calls),           STATISTIC(bytes_up),       STATISTIC(bytes_down),         STATISTIC(bytes_device),
    STATISTIC(unpinned_copies), STATISTIC(faults),         STATISTIC(device_allocations), STATISTIC(pinned_allocations),
    STATISTIC(device_live),     STATISTIC(pinned_live),    STATISTIC(device_live_count),  STATISTIC(pinned_live_count),
    STATISTIC(streams_live),    STATISTIC(events_live),    STATISTIC(graphs_live),        STATISTIC(contexts_retained),
    STATISTIC(leaked),          STATISTIC(host_functions), STATISTIC(graph_launches),
};

/* ~0 for an unknown name, so that a mistyped one does not pass for "nothing happened". */
EXPORT unsigned long long emu_stat(const char *name)
{
    unsigned long long value = ~0ULL;
    lock();
    for (size_t i = 0; i < sizeof statistics / sizeof *statistics; i++)
        if (!strcmp(statistics[i].name, name)) value = *statistics[i].value;
    unlock();
    return value;
}

EXPORT unsigned long long emu_calls(const char *function)
{
    lock();
    unsigned long long calls = functions[function_index(function)].calls;
    unlock();
    return calls;
}

EXPORT int emu_log_start(void)
{
    lock();
    call_log.length = 0;
    call_log.on = 1;
    unlock();
    return 0;
}

/* Returns the bytes that the whole log takes with its closing zero; writes it only when `size` is at least that. */
EXPORT size_t emu_log(char *buffer, size_t size)
{
    lock();
    size_t needed = 1;
    for (size_t i = 0; i < call_log.length; i++) needed += strlen(call_log.names[i]) + 1;
    if (buffer && size >= needed) {
        char *end = buffer;
        for (size_t i = 0; i < call_log.length; i++) end += sprintf(end, "%s\n", call_log.names[i]);
        *end = 0;
    }
    unlock();
    return needed;
}

EXPORT void emu_fail(unsigned long long nth, int code, int sticky)
{
    lock();
    failure.at = nth ? counters.calls + nth : 0;
    failure.code = code;
    failure.sticky = sticky;
    failure.hit = 0;
    unlock();
}

EXPORT int emu_failed(void)
{
    lock();
    int hit = failure.hit;
    unlock();
    return hit;
}

EXPORT int emu_in_device(unsigned long long address, unsigned long long bytes)
{
    lock();
    int is_inside = inside(address, bytes, PLACE_DEVICE);
    unlock();
    return is_inside;
}

EXPORT int emu_enqueue(void *handle, host_function function, void *argument)
{
    lock();
    struct stream *stream = find_stream(handle);
    struct work work = {
        .kind = WORK_HOST, .function = "emu_enqueue", .host = function, .argument = argument, .may_call_cuda = 1};
    CUresult result = device_lost();
    if (result == CUDA_SUCCESS) result = stream ? enqueue(stream, &work) : CUDA_ERROR_INVALID_HANDLE;
    unlock();
    return result;
}

EXPORT void emu_raise(int code)
{
    lock();
    lose_device(fault(code, "a queued function raised error %d", code));
    unlock();
}

EXPORT int emu_is_capturing(void *handle)
{
    lock();
    struct stream *stream = find_stream(handle);
    int capturing = stream && stream->capture != CAPTURE_NONE;
    unlock();
    return capturing;
}

EXPORT void emu_invalidate(void *handle, const char *why)
{
    lock();
    struct stream *stream = find_stream(handle);
    if (stream) invalidate(stream, why);
    unlock();
}

EXPORT size_t emu_last_fault(char *buffer, size_t size)
{
    lock();
    size_t needed = strlen(last_fault()) + 1;
    if (buffer && size) snprintf(buffer, size, "%s", last_fault());
    unlock();
    return needed;
}
