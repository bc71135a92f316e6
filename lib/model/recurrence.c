/* recurrence.c - chunks of linear attention on GPUs, and the memory for them */
#include "lib/model/recurrence.h"
#include "lib/base/int64.h"

/* So that a chunk of keys fills the same memory, whatever their width. */
static int64_t
chunk_of(int64_t key_dim)
{
	return key_dim <= 128 ? 64 : key_dim <= 256 ? 32 : 16;
}

struct recurrence_chunks
recurrence_chunks(const struct recurrence_shape *s)
{
	int64_t chunk = chunk_of(s->key_dim);

	return (struct recurrence_chunks){ chunk, int64_div_up(s->positions, chunk),
		2 * chunk * chunk + 8 * chunk };
}

int64_t
recurrence_work(const struct recurrence_shape *s, bool backward)
{
	struct recurrence_chunks c = recurrence_chunks(s);
	int64_t states = backward ? 2 * (s->key_dim * s->value_dim + 1) : 0;

	return c.count * s->heads * (c.record + states);
}
