/* Copies and fills: their checks, and their way into a stream or, for the synchronous ones, straight to execution. */
#include "emulator.h"

#include <stdint.h>

enum memory_type { HOST_MEMORY = 1, DEVICE_MEMORY = 2, UNIFIED_MEMORY = 4 };

/* CUDA_MEMCPY2D_v2 of cuda.h */
struct copy_2d {
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    CUdeviceptr from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_type;
    void *to_host;
    CUdeviceptr to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height;
};

static CUdeviceptr address_of(const void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }

static CUresult check_device_range(const struct work *work, const struct operand *operand)
{
    size_t bytes = span(work, operand);
    if (inside(operand->address, bytes, PLACE_DEVICE)) return CUDA_SUCCESS;
    return fault(CUDA_ERROR_INVALID_VALUE, "%#llx (%zu bytes) is not inside one live device allocation",
                 operand->address, bytes);
}

/* A stream reads and writes host memory later, so that memory has to be pinned. */
static CUresult check_pinned_range(const struct work *work, const struct operand *operand)
{
    size_t bytes = span(work, operand);
    if (inside(operand->address, bytes, PLACE_PINNED)) return CUDA_SUCCESS;
    if (place_of(operand->address) == PLACE_PAGEABLE) counters.unpinned_copies++;
    return fault(CUDA_ERROR_INVALID_VALUE, "%#llx (%zu bytes) is not inside one live pinned allocation",
                 operand->address, bytes);
}

static CUresult check_async(const struct work *work, const struct operand *operand)
{
    return operand->place == PLACE_DEVICE ? check_device_range(work, operand) : check_pinned_range(work, operand);
}

/* A synchronous copy takes any host memory; only what the emulator knows can be checked. */
static CUresult check_sync_host(const struct work *work, struct operand *operand)
{
    operand->place = place_of(operand->address);
    if (operand->place != PLACE_PAGEABLE) return check_pinned_range(work, operand);
    return operand->address ? CUDA_SUCCESS : fault(CUDA_ERROR_INVALID_VALUE, "no host pointer");
}

/* Rows of a rectangle may lie between each other; for one row it is an error that CUDA leaves undefined. */
static int overlap(const struct work *work)
{
    CUdeviceptr to = work->to.address, from = work->from.address;
    return work->height == 1 && to < from + work->width && from < to + work->width;
}

static CUresult queue_copy(CUhandle handle, struct work work)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = check_capture(stream);
    if (result != CUDA_SUCCESS) return result;
    if (!work.width || !work.height) return CUDA_SUCCESS;
    work.kind = WORK_COPY;
    work.function = this_function();
    result = check_async(&work, &work.to);
    if (result == CUDA_SUCCESS) result = check_async(&work, &work.from);
    if (result != CUDA_SUCCESS) return result;
    if (overlap(&work)) return fault(CUDA_ERROR_INVALID_VALUE, "the two ranges of a copy overlap");
    return enqueue(stream, &work);
}

static struct work row_copy(CUdeviceptr to, enum place to_place, CUdeviceptr from, enum place from_place, size_t bytes)
{
    return (struct work){.to = {to, bytes, to_place}, .from = {from, bytes, from_place}, .width = bytes, .height = 1};
}

static struct operand operand_2d(unsigned type, const void *host, CUdeviceptr device, size_t pitch, size_t x, size_t y)
{
    CUdeviceptr base = type == HOST_MEMORY ? address_of(host) : device;
    enum place place = type == UNIFIED_MEMORY ? place_of(base) : type == DEVICE_MEMORY ? PLACE_DEVICE : PLACE_PINNED;
    return (struct operand){base + y * pitch + x, pitch, place};
}

static int known_type(unsigned type) { return type == HOST_MEMORY || type == DEVICE_MEMORY || type == UNIFIED_MEMORY; }

static CUresult queue_copy_2d(const struct copy_2d *copy, CUhandle stream)
{
    if (!copy) return CUDA_ERROR_INVALID_VALUE;
    if (!known_type(copy->to_type) || !known_type(copy->from_type))
        return fault(CUDA_ERROR_INVALID_VALUE, "no such memory type here");
    struct work work = {.width = copy->width, .height = copy->height};
    size_t to_pitch = copy->to_pitch ? copy->to_pitch : copy->width;
    size_t from_pitch = copy->from_pitch ? copy->from_pitch : copy->width;
    if (to_pitch < copy->to_x + copy->width || from_pitch < copy->from_x + copy->width)
        return fault(CUDA_ERROR_INVALID_VALUE, "rows of %zu bytes do not fit pitches of %zu and %zu", copy->width,
                     to_pitch, from_pitch);
    work.to = operand_2d(copy->to_type, copy->to_host, copy->to_device, to_pitch, copy->to_x, copy->to_y);
    work.from = operand_2d(copy->from_type, copy->from_host, copy->from_device, from_pitch, copy->from_x, copy->from_y);
    return queue_copy(stream, work);
}

static CUresult queue_unified(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUhandle stream)
{
    return queue_copy(stream, row_copy(to, place_of(to), from, place_of(from), bytes));
}

static CUresult queue_fill(CUhandle handle, struct work work)
{
    struct stream *stream = find_stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = check_capture(stream);
    if (result != CUDA_SUCCESS) return result;
    if (work.to.address % work.pattern_bytes)
        return fault(CUDA_ERROR_INVALID_VALUE, "%#llx is not aligned", work.to.address);
    if (!work.width || !work.height) return CUDA_SUCCESS;
    if (work.height > 1 && work.to.pitch < work.width) return fault(CUDA_ERROR_INVALID_VALUE, "pitch below width");
    work.kind = WORK_FILL;
    work.function = this_function();
    result = check_device_range(&work, &work.to);
    return result == CUDA_SUCCESS ? enqueue(stream, &work) : result;
}

static struct work fill(CUdeviceptr to, size_t pitch, unsigned pattern, unsigned pattern_bytes, size_t width,
                        size_t height)
{
    return (struct work){.to = {to, pitch, PLACE_DEVICE},
                         .pattern = pattern,
                         .pattern_bytes = pattern_bytes,
                         .width = width,
                         .height = height};
}

/* Everything queued before comes first, as with CUDA's default stream. */
static CUresult execute_now(struct work work, enum work_kind kind)
{
    CUresult result = refuse_in_capture(UNSAFE_ALWAYS);
    if (result != CUDA_SUCCESS || !work.width) return result;
    work.kind = kind;
    work.function = this_function();
    result = work.to.place == PLACE_DEVICE ? check_device_range(&work, &work.to) : check_sync_host(&work, &work.to);
    if (result == CUDA_SUCCESS && kind == WORK_COPY)
        result = work.from.place == PLACE_DEVICE ? check_device_range(&work, &work.from)
                                                 : check_sync_host(&work, &work.from);
    if (result == CUDA_SUCCESS) result = drain_all();
    if (result != CUDA_SUCCESS) return result;
    execute(&work);
    return device_lost();
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUhandle stream)
{
    RUN(NEEDS_CONTEXT, queue_copy(stream, row_copy(to, PLACE_DEVICE, address_of(from), PLACE_PINNED, bytes)));
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUhandle stream)
{
    RUN(NEEDS_CONTEXT, queue_copy(stream, row_copy(address_of(to), PLACE_PINNED, from, PLACE_DEVICE, bytes)));
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUhandle stream)
{
    RUN(NEEDS_CONTEXT, queue_copy(stream, row_copy(to, PLACE_DEVICE, from, PLACE_DEVICE, bytes)));
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUhandle stream)
{
    RUN(NEEDS_CONTEXT, queue_unified(to, from, bytes, stream));
}

EXPORT CUresult cuMemcpy2DAsync_v2(const struct copy_2d *copy, CUhandle stream)
{
    RUN(NEEDS_CONTEXT, queue_copy_2d(copy, stream));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUhandle stream)
{
    RUN(NEEDS_CONTEXT, queue_fill(stream, fill(to, count, value, 1, count, 1)));
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUhandle stream)
{
    size_t bytes = count > SIZE_MAX / 4 ? SIZE_MAX : 4 * count; /* more than any allocation has, rather than wrapped */
    RUN(NEEDS_CONTEXT, queue_fill(stream, fill(to, bytes, value, 4, bytes, 1)));
}

EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                                  CUhandle stream)
{
    RUN(NEEDS_CONTEXT, queue_fill(stream, fill(to, pitch, value, 1, width, height)));
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    RUN(NEEDS_CONTEXT, execute_now(row_copy(to, PLACE_DEVICE, address_of(from), PLACE_PAGEABLE, bytes), WORK_COPY));
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    RUN(NEEDS_CONTEXT, execute_now(row_copy(address_of(to), PLACE_PAGEABLE, from, PLACE_DEVICE, bytes), WORK_COPY));
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    RUN(NEEDS_CONTEXT, execute_now(fill(to, count, value, 1, count, 1), WORK_FILL));
}

ALIAS(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2);
ALIAS(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2);
ALIAS(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2);
ALIAS(cuMemcpy2DAsync, cuMemcpy2DAsync_v2);
ALIAS(cuMemcpyHtoD, cuMemcpyHtoD_v2);
ALIAS(cuMemcpyDtoH, cuMemcpyDtoH_v2);
ALIAS(cuMemsetD8, cuMemsetD8_v2);
