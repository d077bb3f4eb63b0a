/* How callers find functions and read errors, and the functions that exist only so that a program links. */
#define _GNU_SOURCE
#include "emulator.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME 96

enum status { FOUND, SYMBOL_NOT_FOUND };

struct error {
    CUresult code;
    const char *name, *description;
};

static const struct error *find_error(CUresult code)
{
#define TABLE_ENTRY(name, code, description) {code, #name, description},
    static const struct error errors[] = {ERRORS(TABLE_ENTRY)};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return &errors[i];
    return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult code, const char **name)
{
    const struct error *error = find_error(code);
    *name = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **description)
{
    const struct error *error = find_error(code);
    *description = error ? error->description : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void *own_symbol(const char *name)
{
    static void *library;
    Dl_info here;
    if (!library && dladdr((void *)&find_error, &here)) library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

/* Names whose newest form has no suffix to find it by, or whose arguments changed between two drivers. */
static const char *exceptional_name(const char *name, int version)
{
    if (!strcmp(name, "cuGraphInstantiate")) return version >= 12000 ? "cuGraphInstantiateWithFlags" : NULL;
    if (!strcmp(name, "cuStreamGetCaptureInfo")) return version < 12030 ? "cuStreamGetCaptureInfo_v2" : NULL;
    if (!strcmp(name, "cuGetProcAddress")) return version < 12000 ? "cuGetProcAddress" : NULL;
    return NULL;
}

static void *newest_symbol(const char *name, int version)
{
    static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
    const char *exceptional = exceptional_name(name, version);
    if (exceptional) return own_symbol(exceptional);
    void *found = NULL;
    for (size_t i = 0; !found && i < sizeof suffixes / sizeof *suffixes; i++) {
        char full[MAX_NAME];
        snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
        found = own_symbol(full);
    }
    return found;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                                    int *status)
{
    (void)flags;
    *function = strncmp(name, "cu", 2) ? NULL : newest_symbol(name, version);
    if (status) *status = *function ? FOUND : SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

/* What PyCUDA's extension module imports beyond the functions that are emulated. */
#define STUB(name) \
    EXPORT CUresult name(void) { RUN(NEEDS_INIT, CUDA_ERROR_NOT_SUPPORTED); }
STUB(cuArray3DCreate_v2) STUB(cuArray3DGetDescriptor_v2) STUB(cuArrayCreate_v2) STUB(cuArrayDestroy)
STUB(cuArrayGetDescriptor_v2) STUB(cuCtxAttach) STUB(cuCtxCreate_v4) STUB(cuCtxDetach) STUB(cuCtxDisablePeerAccess)
STUB(cuCtxEnablePeerAccess) STUB(cuCtxGetCacheConfig) STUB(cuCtxGetLimit) STUB(cuCtxGetSharedMemConfig)
STUB(cuCtxSetCacheConfig) STUB(cuCtxSetLimit) STUB(cuCtxSetSharedMemConfig) STUB(cuDeviceCanAccessPeer)
STUB(cuDeviceGetByPCIBusId) STUB(cuFuncGetAttribute) STUB(cuFuncSetAttribute)
STUB(cuFuncSetBlockShape) STUB(cuFuncSetCacheConfig) STUB(cuFuncSetSharedSize) STUB(cuIpcCloseMemHandle)
STUB(cuIpcGetEventHandle) STUB(cuIpcGetMemHandle) STUB(cuIpcOpenEventHandle) STUB(cuIpcOpenMemHandle_v2)
STUB(cuLaunch) STUB(cuLaunchGrid) STUB(cuLaunchGridAsync) STUB(cuLaunchKernel) STUB(cuLinkAddData_v2)
STUB(cuLinkAddFile_v2) STUB(cuLinkComplete) STUB(cuLinkCreate_v2) STUB(cuLinkDestroy) STUB(cuMemAllocManaged)
STUB(cuMemAllocPitch_v2) STUB(cuMemGetAddressRange_v2) STUB(cuMemHostGetFlags) STUB(cuMemHostRegister_v2)
STUB(cuMemHostUnregister) STUB(cuMemcpy2DUnaligned_v2) STUB(cuMemcpy2D_v2) STUB(cuMemcpy3DAsync_v2)
STUB(cuMemcpy3DPeer) STUB(cuMemcpy3DPeerAsync) STUB(cuMemcpy3D_v2) STUB(cuMemcpyAtoA_v2) STUB(cuMemcpyAtoD_v2)
STUB(cuMemcpyAtoH_v2) STUB(cuMemcpyDtoA_v2) STUB(cuMemcpyDtoD_v2) STUB(cuMemcpyHtoA_v2) STUB(cuMemcpyPeer)
STUB(cuMemcpyPeerAsync) STUB(cuMemsetD16Async) STUB(cuMemsetD16_v2) STUB(cuMemsetD2D16Async) STUB(cuMemsetD2D16_v2)
STUB(cuMemsetD2D32Async) STUB(cuMemsetD2D32_v2) STUB(cuMemsetD2D8_v2) STUB(cuMemsetD32_v2) STUB(cuModuleGetFunction)
STUB(cuModuleGetGlobal_v2) STUB(cuModuleGetSurfRef) STUB(cuModuleGetTexRef) STUB(cuModuleLoad) STUB(cuModuleLoadData)
STUB(cuModuleLoadDataEx) STUB(cuModuleUnload) STUB(cuParamSetSize) STUB(cuParamSetTexRef) STUB(cuParamSetf)
STUB(cuParamSeti) STUB(cuParamSetv) STUB(cuProfilerInitialize) STUB(cuProfilerStart) STUB(cuProfilerStop)
STUB(cuStreamAttachMemAsync) STUB(cuSurfRefGetArray) STUB(cuSurfRefSetArray) STUB(cuTexRefCreate)
STUB(cuTexRefDestroy) STUB(cuTexRefGetAddressMode) STUB(cuTexRefGetAddress_v2) STUB(cuTexRefGetArray)
STUB(cuTexRefGetFilterMode) STUB(cuTexRefGetFlags) STUB(cuTexRefGetFormat) STUB(cuTexRefSetAddress2D_v3)
STUB(cuTexRefSetAddressMode) STUB(cuTexRefSetAddress_v2) STUB(cuTexRefSetArray) STUB(cuTexRefSetFilterMode)
STUB(cuTexRefSetFlags) STUB(cuTexRefSetFormat)
