/* Device and pinned memory: host pages of their own, with nothing mapped behind them and no address used twice. */
#include "emulator.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRESH 0xFF /* NaN in FP16 and in FP32 */
#define ALIGNMENT 512
#define ADDRESS_SPACE (4ULL << 40)

struct allocation {
    struct allocation *next;
    CUdeviceptr address;
    size_t bytes;
    enum place place;
    unsigned char *pages;
    size_t page_bytes;
};
static struct allocation *allocations;

static size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Pages never handed out before, so that no stale pointer and no stale graph can meet a newer allocation. */
static unsigned char *fresh_pages(size_t bytes)
{
    static unsigned char *space;
    static size_t used;
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    if (!space) {
        space = mmap(NULL, ADDRESS_SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED) abort();
        used = guard;
    }
    if (bytes > ADDRESS_SPACE - used - guard) return NULL;
    unsigned char *pages = space + used;
    if (mprotect(pages, bytes, PROT_READ | PROT_WRITE)) return NULL;
    used += bytes + guard;
    memset(pages, FRESH, bytes);
    return pages;
}

static void discard_pages(unsigned char *pages, size_t bytes)
{
    mmap(pages, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static struct allocation *find_containing(CUdeviceptr address)
{
    for (struct allocation *each = allocations; each; each = each->next)
        if (address >= each->address && address - each->address < each->bytes) return each;
    return NULL;
}

enum place place_of(CUdeviceptr address)
{
    struct allocation *found = find_containing(address);
    return found ? found->place : PLACE_PAGEABLE;
}

int inside(CUdeviceptr address, size_t bytes, enum place place)
{
    struct allocation *found = find_containing(address);
    return found && found->place == place && bytes <= found->bytes - (address - found->address);
}

static void count_allocation(const struct allocation *allocation, int sign)
{
    int device = allocation->place == PLACE_DEVICE;
    unsigned long long bytes = allocation->bytes;
    *(device ? &counters.device_live : &counters.pinned_live) += sign > 0 ? bytes : -bytes;
    *(device ? &counters.device_live_count : &counters.pinned_live_count) += sign > 0 ? 1 : -1ULL;
    if (sign > 0) ++*(device ? &counters.device_allocations : &counters.pinned_allocations);
}

/* The end touches the guard page as nearly as the alignment of the start allows. */
static CUresult allocate(CUdeviceptr *address, size_t bytes, enum place place)
{
    struct allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t page_bytes = rounded(bytes, (size_t)sysconf(_SC_PAGESIZE));
    unsigned char *pages = fresh_pages(page_bytes);
    if (!pages) {
        free(allocation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *allocation = (struct allocation){allocations, 0, bytes, place, pages, page_bytes};
    allocation->address = (CUdeviceptr)(uintptr_t)(pages + page_bytes - rounded(bytes, ALIGNMENT));
    allocations = allocation;
    count_allocation(allocation, +1);
    *address = allocation->address;
    return CUDA_SUCCESS;
}

static void release(struct allocation *allocation)
{
    struct allocation **link = &allocations;
    while (*link != allocation) link = &(*link)->next;
    *link = allocation->next;
    count_allocation(allocation, -1);
    discard_pages(allocation->pages, allocation->page_bytes);
    free(allocation);
}

/* Alignment leaves bytes around an allocation that no page protection guards; a write there shows when it is freed. */
static CUresult check_surroundings(const struct allocation *allocation)
{
    const unsigned char *start = (const unsigned char *)(uintptr_t)allocation->address;
    const unsigned char *end = allocation->pages + allocation->page_bytes;
    for (const unsigned char *byte = allocation->pages; byte < end; byte++) {
        if (byte == start) byte += allocation->bytes;
        if (byte < end && *byte != FRESH)
            return lose_device(fault(CUDA_ERROR_ILLEGAL_ADDRESS,
                                     "%#llx (%zu bytes) was written outside its bounds, at offset %td",
                                     allocation->address, allocation->bytes, byte - start));
    }
    return CUDA_SUCCESS;
}

static unsigned long long free_memory(void)
{
    unsigned long long taken = desktop_memory;
    for (struct allocation *each = allocations; each; each = each->next)
        if (each->place == PLACE_DEVICE) taken += rounded(each->bytes, ALIGNMENT);
    return taken < total_memory ? total_memory - taken : 0;
}

static CUresult get_info(size_t *available, size_t *total)
{
    if (available) *available = free_memory();
    if (total) *total = total_memory;
    return CUDA_SUCCESS;
}

static CUresult allocate_device(CUdeviceptr *address, size_t bytes)
{
    if (!address || !bytes) return fault(CUDA_ERROR_INVALID_VALUE, "%zu bytes asked for", bytes);
    CUresult result = refuse_in_capture(UNSAFE_UNLESS_RELAXED);
    if (result != CUDA_SUCCESS) return result;
    /* Compared before rounding, which could overflow. Being short of memory is no fault: programs ask and adapt. */
    if (bytes > total_memory || rounded(bytes, ALIGNMENT) > free_memory()) return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate(address, bytes, PLACE_DEVICE);
}

static CUresult allocate_pinned(void **pointer, size_t bytes)
{
    if (!pointer || !bytes) return fault(CUDA_ERROR_INVALID_VALUE, "%zu bytes asked for", bytes);
    CUresult result = refuse_in_capture(UNSAFE_UNLESS_RELAXED);
    if (result != CUDA_SUCCESS) return result;
    CUdeviceptr address = 0;
    result = allocate(&address, bytes, PLACE_PINNED);
    if (result == CUDA_SUCCESS) *pointer = (void *)(uintptr_t)address;
    return result;
}

static struct allocation *find_start(CUdeviceptr address, enum place place)
{
    struct allocation *found = find_containing(address);
    if (found && found->place == place && found->address == address) return found;
    fault(CUDA_ERROR_INVALID_VALUE,
          "%#llx is not the start of a live allocation of this kind: freed before, or never allocated", address);
    return NULL;
}

static CUresult free_memory_at(CUdeviceptr address, enum place place)
{
    if (!find_start(address, place)) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = refuse_in_capture(UNSAFE_ALWAYS);
    if (result == CUDA_SUCCESS) result = drain_all();
    if (result != CUDA_SUCCESS) return result;
    /* Found again: another thread may have freed it while the lock was given away for a host function. */
    struct allocation *found = find_start(address, place);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    result = check_surroundings(found);
    if (result == CUDA_SUCCESS) release(found);
    return result;
}

void free_everything(void)
{
    while (allocations) {
        counters.leaked++;
        release(allocations);
    }
}

static CUresult device_pointer(CUdeviceptr *device, void *pointer)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    if (!device || place_of(address) != PLACE_PINNED)
        return fault(CUDA_ERROR_INVALID_VALUE, "%p is not pinned memory", pointer);
    *device = address;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) { RUN(NEEDS_CONTEXT, get_info(available, total)); }
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    RUN(NEEDS_CONTEXT, allocate_device(address, bytes));
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) { RUN(NEEDS_CONTEXT, free_memory_at(address, PLACE_DEVICE)); }
EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) { RUN(NEEDS_CONTEXT, allocate_pinned(pointer, bytes)); }

EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    const unsigned known = 7; /* portable, mapped, write-combined: all the same here */
    RUN(NEEDS_CONTEXT,
        flags & ~known ? fault(CUDA_ERROR_INVALID_VALUE, "flags %#x", flags) : allocate_pinned(pointer, bytes));
}

EXPORT CUresult cuMemFreeHost(void *pointer)
{
    RUN(NEEDS_CONTEXT, free_memory_at((CUdeviceptr)(uintptr_t)pointer, PLACE_PINNED));
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer, unsigned flags)
{
    RUN(NEEDS_CONTEXT, flags ? CUDA_ERROR_INVALID_VALUE : device_pointer(device, pointer));
}

ALIAS(cuMemGetInfo, cuMemGetInfo_v2);
ALIAS(cuMemAlloc, cuMemAlloc_v2);
ALIAS(cuMemFree, cuMemFree_v2);
ALIAS(cuMemAllocHost, cuMemAllocHost_v2);
ALIAS(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2);
