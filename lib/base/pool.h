/*
 * pool.h - a fixed set of threads that share the indices of a loop
 *
 * pool_run calls fn(ctx, i) once for every i in 0..count-1, in any order, on all threads, the
 * caller's included, and returns when all are done. fn must not call pool_run. What a call computes
 * must depend on i alone, never on the thread.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

struct pool;

struct pool *pool_new(int num_threads); /* 1: no extra thread, pool_run is a loop; fewer where the
					 * system allows no more */
void pool_run(struct pool *p, int count, void (*fn)(void *ctx, int index), void *ctx);
int pool_size(const struct pool *p);
/* The CPU time that the threads have used, the caller's included, in seconds since some start. To
 * be called by the thread that calls pool_run. */
double pool_cpu_seconds(const struct pool *p);
void pool_free(struct pool *p);

#endif
