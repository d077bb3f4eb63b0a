/* Handles: numbers that are looked up, never followed. */
#include "emulator.h"

#include <stdint.h>
#include <stdlib.h>

/* Far from 0, 1 and 2 (the default streams), and no address that could be followed by mistake. */
#define FIRST_HANDLE 0x10000
#define HANDLE_STEP 0x10

static struct object **objects;
static size_t count, room;

static const char *const names[] = {"context", "stream", "event", "graph", "executable graph"};

void *new_object(enum kind kind, size_t size)
{
    if (count == room) {
        room = room ? 2 * room : 64;
        objects = realloc(objects, room * sizeof *objects);
    }
    struct object *object = calloc(1, size);
    if (!objects || !object) abort();
    object->kind = kind;
    object->live = 1;
    object->handle = (CUhandle)(uintptr_t)(FIRST_HANDLE + count * HANDLE_STEP);
    objects[count++] = object;
    return object;
}

void *find_object(CUhandle handle, enum kind kind)
{
    uintptr_t offset = (uintptr_t)handle - FIRST_HANDLE;
    struct object *object =
        offset % HANDLE_STEP == 0 && offset / HANDLE_STEP < count ? objects[offset / HANDLE_STEP] : NULL;
    if (object && object->kind == kind && object->live) return object;
    const char *state = object && object->kind == kind ? "destroyed" : "unknown";
    fault(CUDA_ERROR_INVALID_HANDLE, "%s %s %p", state, names[kind], handle);
    return NULL;
}

void each_live_object(void (*visit)(struct object *object))
{
    for (size_t i = 0; i < count; i++)
        if (objects[i]->live) visit(objects[i]);
}
