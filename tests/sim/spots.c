/* spots.c - where in a run faults may happen */
#include "tests/sim/spots.h"

#include <stdlib.h>
#include <string.h>

/* Numbers, and names made of hashes or drawn, are of hexadecimal digits: without these the names of
 * two iterations, ranks or temporary files are the same, and those of other files differ still. */
uint64_t
spot_about(const char *path)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *path; path++)
		if (!strchr("0123456789abcdef", *path))
			hash = (hash ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
	return hash;
}

/* A spot of the same path, or NULL. */
static const struct spot *
named(const struct spots *s, uint64_t about)
{
	for (int i = 0; i < s->count; i++)
		if (s->spot[i].about == about && s->spot[i].path[0])
			return &s->spot[i];
	return NULL;
}

void
spots_note(struct spots *s, enum call c, uint64_t about, const char *path, int rank)
{
	const struct spot *other;
	struct spot *x = s->spot;

	while (x < &s->spot[s->count] && (x->call != c || x->about != about))
		x++;
	if (x == &s->spot[s->count]) {
		if (s->count == SPOTS)
			abort();
		other = path ? NULL : named(s, about);
		*x = (struct spot){ .call = c, .about = about };
		snprintf(x->path, sizeof x->path, "%s", path ? path : other ? other->path : "");
		s->count++;
	}
	x->times[rank]++;
}

const struct spot *
spots_draw(const struct spots *s, uint64_t calls)
{
	enum call kind[CALL_COUNT];
	uint64_t there = 0;
	int kinds = 0, n = 0;

	for (int i = 0; i < s->count; i++)
		there |= UINT64_C(1) << s->spot[i].call;
	there &= calls;
	for (int c = 0; c < CALL_COUNT; c++)
		if (there >> c & 1)
			kind[kinds++] = (enum call)c;
	if (kinds && draw(2))
		there = UINT64_C(1) << kind[draw((uint64_t)kinds)];
	else if (kinds > 2)
		there &= ~(UINT64_C(1) << CALL_MEMORY | UINT64_C(1) << CALL_CLOSE);
	for (int i = 0; i < s->count; i++)
		n += (int)(there >> s->spot[i].call & 1);
	n = n ? (int)draw((uint64_t)n) : -1;
	for (int i = 0; i < s->count; i++)
		if (there >> s->spot[i].call & 1 && n-- == 0)
			return &s->spot[i];
	return NULL;
}
