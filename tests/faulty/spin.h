/* spin.h - a device that never finishes */
#ifndef TESTS_FAULTY_SPIN_H
#define TESTS_FAULTY_SPIN_H

#ifdef __cplusplus
extern "C" {
#endif

struct stream;

/* Queues a kernel that never ends on a stream of train/cuda. Nothing where that is not built. */
void spin_device(struct stream *st);

#ifdef __cplusplus
}
#endif

#endif
