/* Items of work: lists of them, and what executing one does. */
#include "emulator.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void append_work(struct work_list *list, const struct work *work)
{
    struct work *copy = malloc(sizeof *copy);
    if (!copy) abort();
    *copy = *work;
    copy->next = NULL;
    if (list->last) list->last->next = copy;
    else list->first = copy;
    list->last = copy;
}

void append_copies(struct work_list *list, const struct work_list *more)
{
    for (const struct work *each = more->first; each; each = each->next) append_work(list, each);
}

struct work *take_work(struct work_list *list)
{
    struct work *work = list->first;
    list->first = work->next;
    if (!list->first) list->last = NULL;
    return work;
}

void clear_work(struct work_list *list)
{
    while (list->first) free(take_work(list));
}

/* The bytes from the first one touched to the last; a product too large for a size is larger than any allocation. */
size_t span(const struct work *work, const struct operand *operand)
{
    if (operand->pitch && work->height > SIZE_MAX / 2 / operand->pitch) return SIZE_MAX;
    return (work->height - 1) * operand->pitch + work->width;
}

/* A queued range was live when it was queued; a graph, or memory freed since, can make it stale. */
static int still_live(const struct work *work, const struct operand *operand)
{
    size_t bytes = span(work, operand);
    if (operand->place == PLACE_PAGEABLE || inside(operand->address, bytes, operand->place)) return 1;
    lose_device(fault(CUDA_ERROR_ILLEGAL_ADDRESS, "executing %s: %#llx (%zu bytes) is not live memory any more",
                      work->function, operand->address, bytes));
    return 0;
}

static unsigned char *row(const struct operand *operand, size_t index)
{
    return (unsigned char *)(uintptr_t)operand->address + index * operand->pitch;
}

static void count_bytes(const struct work *work)
{
    int to_device = work->to.place == PLACE_DEVICE, from_device = work->from.place == PLACE_DEVICE;
    unsigned long long bytes = work->width * work->height;
    if (to_device && from_device) counters.bytes_device += bytes;
    else if (to_device) counters.bytes_up += bytes;
    else if (from_device) counters.bytes_down += bytes;
}

static void execute_copy(const struct work *work)
{
    if (!still_live(work, &work->to) || !still_live(work, &work->from)) return;
    for (size_t i = 0; i < work->height; i++) memmove(row(&work->to, i), row(&work->from, i), work->width);
    count_bytes(work);
}

static void fill_row(unsigned char *start, const struct work *work)
{
    if (work->pattern_bytes == 1) {
        memset(start, (int)work->pattern, work->width);
        return;
    }
    for (size_t done = 0; done < work->width; done += work->pattern_bytes)
        memcpy(start + done, &work->pattern, work->pattern_bytes);
}

static void execute_fill(const struct work *work)
{
    if (!still_live(work, &work->to)) return;
    for (size_t i = 0; i < work->height; i++) fill_row(row(&work->to, i), work);
}

static void execute_host_function(const struct work *work)
{
    counters.host_functions++;
    run_unlocked(work->host, work->argument, work->may_call_cuda);
}

void execute(const struct work *work)
{
    switch (work->kind) {
    case WORK_COPY: execute_copy(work); break;
    case WORK_FILL: execute_fill(work); break;
    case WORK_HOST: execute_host_function(work); break;
    case WORK_RECORD: note_record(work); break;
    case WORK_WAIT: drain(work->awaited, work->position); break;
    }
}
