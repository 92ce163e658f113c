// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* CUDA calls. Which function was entered is told by the attach cookie, the number of its rule; how to
 * read its arguments stands there, so every function shares these programs. */
#include "call.h"

#define PROBE_ENTER call_enter
#define PROBE_RETURN call_return
#include "programs.h"
