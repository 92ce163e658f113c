// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HIP calls: the same bodies as CUDA's, told by their rules. */
#include "call.h"

#define PROBE_ENTER call_enter
#define PROBE_RETURN call_return
#include "programs.h"
