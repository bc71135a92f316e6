/* lost.h - what of a text does not come back from a SentencePiece model that encodes and decodes
 * it */
#ifndef TOK_LOST_H
#define TOK_LOST_H

#include "lib/token/spm/spm.h"

/* The beginning of a corpus: whole texts, up to LOST_BYTES of them. Zero-initialise. */
enum { LOST_BYTES = 1 << 20 };
struct lost {
	struct str text;
	struct str lengths; /* of the texts: size_t */
	bool full;
};
/* Adds a text, or its beginning. */
void lost_keep(struct lost *l, const char *text, size_t len);
/* Appends how many of the texts do not come back and what is missing of them, unless all do. -1
 * with the reason when a text cannot be encoded. */
int lost_tell(const struct lost *l, const struct spm *m, struct str *out, struct err *e);
void lost_release(struct lost *l);

#endif
