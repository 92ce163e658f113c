// A device whose ioctls take turns, in whichever process they are made: /dev/net/tun stands in for a GPU's
// driver. Its ioctls hold one lock of the whole kernel.
#pragma once

// A file of the device that answers; ends the process where there is none.
int monitor_open(void);
// An ioctl that is short, unless somebody else is in one.
void monitor_ask(int file);
