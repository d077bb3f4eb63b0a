/* The one device, its primary context, and which context is current on a thread. */
#include "emulator.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_VERSION 13000
#define CONTEXT_API_VERSION 3020
#define STACK_DEPTH 32
#define CAPABILITY_MAJOR 75
#define CAPABILITY_MINOR 76
#define MIB (1ULL << 20)

unsigned long long total_memory, desktop_memory;

static char device_name[128];
static int is_initialized;
static struct object *primary;
static __thread CUhandle stack[STACK_DEPTH];
static __thread int depth;

int initialized(void) { return is_initialized; }

static unsigned long long bytes_from_environment(const char *variable, unsigned long long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static CUresult initialize(unsigned flags)
{
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (is_initialized) return CUDA_SUCCESS;
    const char *name = getenv("EMULATED_GPU_NAME");
    snprintf(device_name, sizeof device_name, "%s", name && *name ? name : "GTX 1650 (emulated)");
    total_memory = bytes_from_environment("EMULATED_GPU_MEMORY", 4096 * MIB - MIB / 4);
    desktop_memory = bytes_from_environment("EMULATED_GPU_DESKTOP", 600 * MIB);
    is_initialized = 1;
    return CUDA_SUCCESS;
}

/* These two work before anything else and are not counted: every binding calls them as it likes. */
EXPORT CUresult cuInit(unsigned flags)
{
    lock();
    return leave(initialize(flags));
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static CUresult check_device(CUdevice device)
{
    return device == 0 ? CUDA_SUCCESS : fault(CUDA_ERROR_INVALID_DEVICE, "device %d; there is only device 0", device);
}

static CUresult write_text(const char *text, char *buffer, int size, CUdevice device)
{
    if (check_device(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    if (!buffer || size <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(buffer, (size_t)size, "%s", text);
    return CUDA_SUCCESS;
}

static CUresult set_int(int *target, int value)
{
    if (!target) return CUDA_ERROR_INVALID_VALUE;
    *target = value;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device, int ordinal)
{
    CUresult result = check_device(ordinal);
    return result == CUDA_SUCCESS ? set_int(device, 0) : result;
}

/* A GTX 1650, by the numbers of CUdevice_attribute. What is not listed is 0: no such feature. */
static const struct {
    int attribute, value;
} attributes[] = {
    {1, 1024},                                /* threads per block */
    {2, 1024},        {3, 1024},  {4, 64},    /* block dimensions */
    {5, 2147483647},  {6, 65535}, {7, 65535}, /* grid dimensions */
    {8, 49152},                               /* shared memory per block */
    {9, 65536},                               /* constant memory */
    {10, 32},                                 /* warp size */
    {11, 2147483647},                         /* pitch */
    {12, 65536},                              /* registers per block */
    {13, 1590000},                            /* clock in kHz */
    {14, 512},                                /* texture alignment */
    {15, 1},                                  /* copies overlap execution */
    {16, 14},                                 /* multiprocessors */
    {17, 1},                                  /* kernels have a time limit: a desktop runs on it */
    {19, 1},                                  /* maps host memory */
    {31, 1},                                  /* concurrent kernels */
    {33, 1},                                  /* PCI bus */
    {36, 4001000},                            /* memory clock in kHz */
    {37, 128},                                /* memory bus in bits */
    {38, 1048576},                            /* second-level cache */
    {39, 1024},                               /* threads per multiprocessor */
    {40, 3},                                  /* copy engines */
    {41, 1},                                  /* unified addresses */
    {CAPABILITY_MAJOR, 7},
    {CAPABILITY_MINOR, 5},
};
#define LAST_ATTRIBUTE 160

static CUresult get_attribute(int *value, int attribute, CUdevice device)
{
    if (check_device(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    if (attribute < 1 || attribute > LAST_ATTRIBUTE) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute) return set_int(value, attributes[i].value);
    return set_int(value, 0);
}

static CUresult get_capability(int *major, int *minor, CUdevice device)
{
    CUresult result = get_attribute(major, CAPABILITY_MAJOR, device);
    return result == CUDA_SUCCESS ? get_attribute(minor, CAPABILITY_MINOR, device) : result;
}

static CUresult get_total(size_t *bytes, CUdevice device)
{
    if (check_device(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *bytes = total_memory;
    return CUDA_SUCCESS;
}

static CUresult get_uuid(char *uuid, CUdevice device)
{
    if (check_device(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid, "emulated-device0", 16);
    return CUDA_SUCCESS;
}

static CUresult retain(CUhandle *context, CUdevice device)
{
    if (check_device(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    if (!primary) primary = new_object(KIND_CONTEXT, sizeof *primary);
    counters.contexts_retained++;
    *context = primary->handle;
    return CUDA_SUCCESS;
}

static void leak_object(struct object *object)
{
    if (object->kind != KIND_EVENT && object->kind != KIND_GRAPH && object->kind != KIND_EXECUTABLE) return;
    counters.leaked++;
    if (object->kind == KIND_EVENT) {
        object->live = 0;
        counters.events_live--;
    } else {
        destroy_graph(object);
    }
}

static CUresult release(CUdevice device)
{
    if (check_device(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    if (!primary) return fault(CUDA_ERROR_INVALID_CONTEXT, "the primary context is not retained");
    if (--counters.contexts_retained) return CUDA_SUCCESS;
    destroy_streams();
    each_live_object(leak_object);
    free_everything();
    primary->live = 0;
    primary = NULL;
    return CUDA_SUCCESS;
}

static CUresult get_state(CUdevice device, unsigned *flags, int *active)
{
    if (check_device(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    *flags = 0;
    *active = primary != NULL;
    return CUDA_SUCCESS;
}

CUresult require_context(void)
{
    if (!depth || !stack[depth - 1]) return fault(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
    return find_object(stack[depth - 1], KIND_CONTEXT) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult push(CUhandle context)
{
    if (!find_object(context, KIND_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == STACK_DEPTH)
        return fault(CUDA_ERROR_OUT_OF_MEMORY, "%d contexts pushed on one thread and none popped", depth);
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUhandle *context)
{
    if (!depth) return fault(CUDA_ERROR_INVALID_CONTEXT, "nothing to pop on this thread");
    depth--;
    if (context) *context = stack[depth];
    return CUDA_SUCCESS;
}

static CUresult get_current(CUhandle *context)
{
    if (!context) return CUDA_ERROR_INVALID_VALUE;
    *context = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* Replaces the top of the stack; no context at all takes the top away. */
static CUresult set_current(CUhandle context)
{
    if (context && !find_object(context, KIND_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth) depth--;
    return context ? push(context) : CUDA_SUCCESS;
}

static CUresult get_api_version(CUhandle context, unsigned *version)
{
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    if (context && !find_object(context, KIND_CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    *version = CONTEXT_API_VERSION;
    return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
    CUresult result = refuse_in_capture(UNSAFE_ALWAYS);
    return result == CUDA_SUCCESS ? drain_all() : result;
}

static CUresult refuse_destruction(CUhandle context)
{
    return fault(CUDA_ERROR_INVALID_CONTEXT, "%p is a primary context, which is released, or no context", context);
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) { RUN(NEEDS_INIT, get_device(device, ordinal)); }
EXPORT CUresult cuDeviceGetCount(int *count) { RUN(NEEDS_INIT, set_int(count, 1)); }
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    RUN(NEEDS_INIT, write_text(device_name, name, size, device));
}
EXPORT CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    RUN(NEEDS_INIT, write_text("0000:01:00.0", id, size, device));
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { RUN(NEEDS_INIT, get_total(bytes, device)); }
EXPORT CUresult cuDeviceGetUuid_v2(char *uuid, CUdevice device) { RUN(NEEDS_INIT, get_uuid(uuid, device)); }

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    RUN(NEEDS_INIT, get_attribute(value, attribute, device));
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    RUN(NEEDS_INIT, get_capability(major, minor, device));
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUhandle *context, CUdevice device)
{
    RUN(NEEDS_INIT, retain(context, device));
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { RUN(NEEDS_INIT, release(device)); }

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    RUN(NEEDS_INIT, get_state(device, flags, active));
}

EXPORT CUresult cuCtxPushCurrent_v2(CUhandle context) { RUN(NEEDS_INIT, push(context)); }
EXPORT CUresult cuCtxPopCurrent_v2(CUhandle *context) { RUN(NEEDS_INIT, pop(context)); }
EXPORT CUresult cuCtxGetCurrent(CUhandle *context) { RUN(NEEDS_INIT, get_current(context)); }
EXPORT CUresult cuCtxSetCurrent(CUhandle context) { RUN(NEEDS_INIT, set_current(context)); }
EXPORT CUresult cuCtxGetDevice(CUdevice *device) { RUN(NEEDS_CONTEXT, set_int(device, 0)); }
EXPORT CUresult cuCtxSynchronize(void) { RUN(NEEDS_CONTEXT, synchronize()); }
EXPORT CUresult cuCtxDestroy_v2(CUhandle context) { RUN(NEEDS_INIT, refuse_destruction(context)); }

EXPORT CUresult cuCtxGetApiVersion(CUhandle context, unsigned *version)
{
    RUN(NEEDS_INIT, get_api_version(context, version));
}

ALIAS(cuDeviceTotalMem, cuDeviceTotalMem_v2);
ALIAS(cuDeviceGetUuid, cuDeviceGetUuid_v2);
ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
ALIAS(cuCtxPushCurrent, cuCtxPushCurrent_v2);
ALIAS(cuCtxPopCurrent, cuCtxPopCurrent_v2);
ALIAS(cuCtxDestroy, cuCtxDestroy_v2);
