/* run.h - passes over a problem, for the driver */
#ifndef TESTS_OP_RUN_H
#define TESTS_OP_RUN_H

#include "tests/op/op.h"

/* Inputs to the device, forward pass, outputs to the host. */
void problem_forward(struct problem *p);
/* Gradients of outputs to the device, backward pass, gradients of inputs to the host. */
void problem_backward(struct problem *p);

#endif
