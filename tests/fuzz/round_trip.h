/* round_trip.h - for fuzz targets of byte-level tokenizers: a tokenizer that opens must round-trip
 * every text */
#ifndef FUZZ_ROUND_TRIP_H
#define FUZZ_ROUND_TRIP_H

#include "lib/token/tokenizer.h"
#include "tests/fuzz/input.h"

/* Opens, encodes, decodes and closes; a spec may be refused. */
static inline void
round_trip(const struct tokenizer_spec *spec, const char *text, size_t len)
{
	struct err e;
	struct tokenizer *t = tokenizer_open(spec, &e);
	struct tokenizer_worker *w = t ? tokenizer_worker_new(t) : NULL;
	struct token_ids ids = { 0 };
	struct str back = { 0 };

	if (t &&
	    (tokenizer_encode(w, text, len, &ids, &e) < 0 ||
		tokenizer_decode(w, &ids, false, &back, &e) < 0 || back.len != len ||
		memcmp(back.buf, text, len) != 0))
		abort();
	str_release(&back);
	token_ids_release(&ids);
	tokenizer_worker_free(w);
	tokenizer_close(t);
}

#endif
