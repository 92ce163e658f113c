// Events of the stand-in driver, as its other parts see them.
#pragma once

#include "handle.h"

// Makes later work of `stream` wait for `event`; joins the capture that the event was recorded in.
CUresult event_hold_up(CUevent event, struct stream *stream);
