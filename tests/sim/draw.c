/* draw.c - the one generator that everything is drawn from, and the log of events */
#include "lib/base/rng.h"
#include "tests/sim/world.h"

#include <string.h>

struct world sim;

#define CALL_NAME(c, name) name,
const char *const call_names[CALL_COUNT] = { CALLS(CALL_NAME) };
#undef CALL_NAME

#define COUNT_NAME(c, name) name,
const char *const count_names[COUNT_COUNT] = { COUNTS(COUNT_NAME) };
#undef COUNT_NAME

void
draw_begin(uint64_t seed)
{
	sim.seed = seed;
	sim.drawn = 0;
	sim.hash = UINT64_C(0xcbf29ce484222325);
}

static uint32_t
word(void)
{
	if (sim.drawn % 4 == 0) {
		const uint32_t counter[4] = { (uint32_t)(sim.drawn / 4),
			(uint32_t)(sim.drawn / 4 >> 32), 0x73696d, 0 };

		rng_philox(sim.seed, counter, sim.word);
	}
	return sim.word[sim.drawn++ % 4];
}

uint64_t
draw(uint64_t n)
{
	uint64_t high = word();

	if (n <= UINT32_MAX)
		return high * n >> 32;
	return ((high << 32) | word()) % n;
}

bool
draw_one_in(int n)
{
	return n > 0 && draw((uint64_t)n) == 0;
}

double
draw_unit(void)
{
	return word() * 0x1p-32;
}

/* By words of eight bytes, with a multiplier: fast enough for every byte that is written or sent.
 */
uint64_t
hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t w;

	for (; n >= sizeof w; n -= sizeof w, p += sizeof w) {
		memcpy(&w, p, sizeof w);
		hash = (hash ^ w) * UINT64_C(0x9fb21c651e98df25);
		hash ^= hash >> 32;
	}
	for (; n; n--, p++)
		hash = (hash ^ *p) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 29;
}

void
log_event(const char *what, const char *text, int64_t a, int64_t b)
{
	const struct thread *t = sim.current;
	const int64_t numbers[] = { sim.now, t->process->number, t->number, a, b };

	sim.events++;
	sim.hash = hash_bytes(sim.hash, what, strlen(what));
	if (text)
		sim.hash = hash_bytes(sim.hash, text, strlen(text));
	sim.hash = hash_bytes(sim.hash, numbers, sizeof numbers);
	if (sim.trace)
		printf("%8ld %14.9f p%d/%d rank %d host %d  %s %s %lld %lld  #%016llx\n",
		    sim.events, (double)sim.now / 1e9, t->process->number, t->number,
		    t->process->rank, t->process->host, what, text ? text : "", (long long)a,
		    (long long)b, (unsigned long long)sim.hash);
	if (sim.until && sim.events >= sim.until) {
		fflush(stdout);
		__builtin_trap();
	}
}
