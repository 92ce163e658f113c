// The thread that PyTorch runs its backward passes in.
#pragma once

// Starts it, named pt_autograd_0; `pass` is what it does each time.
void autograd_start(void (*pass)(void));
// Has it make a pass, and waits until that is over.
void autograd_backward(void);
void autograd_stop(void);
