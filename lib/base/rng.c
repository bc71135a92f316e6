/*
 * rng.c - Philox4x32-10 and MT19937
 *
 * Philox is a stateless function of key and counter: element i of a tensor has the same random
 * value however the tensor is divided over ranks, and after a resume. MT19937 is here only to
 * repeat the shuffles of NumPy's RandomState bit by bit. Sources: Salmon et al. 2011, "Parallel
 * Random Numbers: As Easy as 1, 2, 3"; Matsumoto and Nishimura 1998.
 */
#include "lib/base/rng.h"

#include <math.h>

/*
 * Ten rounds, the number that its authors recommend. The multipliers are theirs; the two constants
 * that the key grows by are the fractions of the golden ratio and of the square root of 3.
 */
void
rng_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = 0xd2511f53ull * c0, p1 = 0xcd9e8d57ull * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* The block of four words that holds element `index`. */
static void
block(uint64_t key, uint64_t index, uint32_t stream, uint32_t step, uint32_t out[4])
{
	uint64_t b = index / 4;
	uint32_t counter[4] = { (uint32_t)b, (uint32_t)(b >> 32), stream, step };

	rng_philox(key, counter, out);
}

/*
 * In [0, 1): the upper 24 bits, so that every value is exact in a float and 1 cannot appear by
 * rounding.
 */
float
rng_uniform(uint64_t key, uint64_t index, uint32_t stream, uint32_t step)
{
	uint32_t w[4];

	block(key, index, stream, step, w);
	return (float)(w[index % 4] >> 8) * 0x1p-24f;
}

/* Two uniforms to two normals; (0, 1] for the logarithm. */
static void
box_muller(uint32_t a, uint32_t b, double out[2])
{
	double u = ((double)a + 1.0) * 0x1p-32, v = (double)b * 0x1p-32;
	double r = sqrt(-2.0 * log(u)), phi = 6.283185307179586476925 * v;

	out[0] = r * cos(phi);
	out[1] = r * sin(phi);
}

/*
 * Elements start .. start + count - 1 of the sequence. Four come from one block of random words,
 * and a call may begin inside a block, so dividing the range differently gives the same numbers. In
 * double; the caller rounds once.
 */
void
rng_normal(uint64_t key, uint64_t start, int64_t count, uint32_t stream, uint32_t step, double *out)
{
	uint32_t w[4];
	double z[4];

	for (int64_t i = 0; i < count; i++) {
		uint64_t index = start + (uint64_t)i;

		if (i == 0 || index % 4 == 0) {
			block(key, index, stream, step, w);
			box_muller(w[0], w[1], z);
			box_muller(w[2], w[3], z + 2);
		}
		out[i] = z[index % 4];
	}
}

/* FNV-1a of 32 bits. A named stream keeps its numbers when another one is added before it. */
uint32_t
rng_stream(const char *name)
{
	uint32_t h = 0x811c9dc5u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x01000193u;
	return h;
}

/*
 * Knuth's recurrence with the multiplier of the 2002 reference code, which RandomState(seed) runs
 * too. The first draw refills.
 */
void
mt19937_seed(struct mt19937 *m, uint32_t seed)
{
	m->k[0] = seed;
	for (uint32_t i = 1; i < 624; i++)
		m->k[i] = 1812433253u * (m->k[i - 1] ^ m->k[i - 1] >> 30) + i;
	m->pos = 624;
}

/* One element of the next state from the two that give its upper and lower bits and the one 397
 * ahead. */
static inline uint32_t
mt19937_twist(uint32_t upper, uint32_t lower, uint32_t ahead)
{
	uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);

	return ahead ^ y >> 1 ^ (0x9908b0dfu & -(y & 1));
}

/*
 * In place: element i needs i, i + 1 and i + 397, and the later ones are still old where the
 * algorithm needs the old ones. The loop is split where i + 397 passes the end, so that each part
 * goes through memory in order; the reference's tempering of all outputs follows.
 */
static void
mt19937_refill(struct mt19937 *m)
{
	uint32_t *k = m->k;

	for (int i = 0; i < 227; i++)
		k[i] = mt19937_twist(k[i], k[i + 1], k[i + 397]);
	for (int i = 227; i < 623; i++)
		k[i] = mt19937_twist(k[i], k[i + 1], k[i - 227]);
	k[623] = mt19937_twist(k[623], k[0], k[396]);
	for (int i = 0; i < 624; i++) {
		uint32_t y = k[i];

		y ^= y >> 11;
		y ^= y << 7 & 0x9d2c5680u;
		y ^= y << 15 & 0xefc60000u;
		m->out[i] = y ^ y >> 18;
	}
	m->pos = 0;
}

/* 32 bits per call. */
uint32_t
mt19937_next(struct mt19937 *m)
{
	if (m->pos == 624)
		mt19937_refill(m);
	return m->out[m->pos++];
}

/* For loops that take many: one call per output would cost more than the output. */
const uint32_t *
mt19937_take(struct mt19937 *m, int most, int *count)
{
	const uint32_t *first;

	if (m->pos == 624)
		mt19937_refill(m);
	first = m->out + m->pos;
	*count = 624 - m->pos < most ? 624 - m->pos : most;
	m->pos += *count;
	return first;
}

/*
 * Uniform in [0, max], max included. Masked rejection and the width of a draw are those of NumPy's
 * legacy generator: another method would be as uniform but give different shuffles.
 */
uint64_t
mt19937_interval(struct mt19937 *m, uint64_t max)
{
	uint64_t mask = max, v;

	if (max == 0)
		return 0;
	for (int shift = 1; shift < 64; shift *= 2)
		mask |= mask >> shift;
	do {
		v = mt19937_next(m);
		if (max > 0xffffffffu)
			v = v << 32 | mt19937_next(m);
		v &= mask;
	} while (v > max);
	return v;
}
