/* Between calls.c, which every driver call goes through, and control.c, which tests read and steer. */
#ifndef CONTROL_H
#define CONTROL_H

#include "emulator.h"

const char *count_call(const char *function); /* returns the name without its version suffix, valid for ever */
CUresult injected_failure(void);
const char *last_fault(void);

#endif
