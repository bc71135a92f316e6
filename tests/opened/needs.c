/* needs.c - an object that needs a library, libother.so.1, which is not on this host */
#include "train/backend.h"

extern const struct backend_object mikoshi_backend;
extern const struct backend_object *const taken;
const struct backend_object *const taken = &mikoshi_backend;
