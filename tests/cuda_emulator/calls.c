/* What every driver call goes through: the lock, counters, injected failures, the lost device. */
#include "emulator.h"

#include <stdarg.h>
#include <stdio.h>

#include "control.h"

struct counters counters;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static __thread const char *function_of_thread = "";
static __thread int in_host_function;
static CUresult lost;
static char last_fault_text[512];

void lock(void) { pthread_mutex_lock(&mutex); }
void unlock(void) { pthread_mutex_unlock(&mutex); }
void wait_for_change(void) { pthread_cond_wait(&change, &mutex); }
void tell_change(void) { pthread_cond_broadcast(&change); }
const char *this_function(void) { return function_of_thread; }
const char *last_fault(void) { return last_fault_text; }
CUresult device_lost(void) { return lost; }

CUresult fault(CUresult code, const char *format, ...)
{
    int used = snprintf(last_fault_text, sizeof last_fault_text, "%s: ", function_of_thread);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_fault_text + used, sizeof last_fault_text - (size_t)used, format, arguments);
    va_end(arguments);
    counters.faults++;
    return code;
}

CUresult lose_device(CUresult code)
{
    if (lost == CUDA_SUCCESS) lost = code;
    return lost;
}

static CUresult refusal(enum needs needs)
{
    if (in_host_function) return fault(CUDA_ERROR_NOT_PERMITTED, "called from a host function");
    if (needs == NEEDS_NOTHING) return CUDA_SUCCESS;
    if (!initialized()) return fault(CUDA_ERROR_NOT_INITIALIZED, "called before cuInit");
    if (lost != CUDA_SUCCESS) return lost;
    return needs == NEEDS_CONTEXT ? require_context() : CUDA_SUCCESS;
}

CUresult enter(const char *function, enum needs needs)
{
    lock();
    function_of_thread = count_call(function);
    CUresult injected = injected_failure();
    return injected != CUDA_SUCCESS ? injected : refusal(needs);
}

CUresult leave(CUresult result)
{
    unlock();
    return result;
}

void run_unlocked(host_function function, void *argument, int may_call_cuda)
{
    const char *caller = function_of_thread;
    in_host_function += !may_call_cuda;
    unlock();
    function(argument);
    lock();
    in_host_function -= !may_call_cuda;
    function_of_thread = caller;
}
