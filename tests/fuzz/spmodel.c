/* spmodel.c - fuzz target: any bytes as a SentencePiece model; an accepted model finds its pieces,
 * encodes its own first bytes as text, and decodes those ids and all ids */
#include "lib/base/mem.h"
#include "lib/token/spm/spm.h"
#include "lib/token/spm/spmodel.h"
#include "tests/fuzz/input.h"

enum { TEXT_MAX = 256 }; /* of the input as a text */

/* Looks every piece up. */
static void
find_pieces(const uint8_t *data, size_t size)
{
	struct spmodel m;
	struct err e;

	if (spmodel_parse(&m, data, size, "fuzz", &e) == 0)
		for (int i = 0; i < m.count; i++)
			if (spmodel_find(&m, m.piece[i].text, m.piece[i].len) != i)
				__builtin_trap();
	spmodel_release(&m);
}

/* Ids must be in the model's range; a worker's results must not depend on earlier texts. */
static void
use(const struct spm *m, const char *text, size_t len)
{
	struct spm_worker *w = spm_worker_new(m);
	struct token_ids ids = { 0 }, again = { 0 };
	struct str back = { 0 };
	struct err e;

	if (spm_encode(m, w, text, len, &ids, &e) < 0 ||
	    spm_encode(m, w, text, len, &again, &e) < 0)
		__builtin_trap();
	if (ids.count != again.count ||
	    (ids.count && memcmp(ids.id, again.id, ids.count * sizeof *ids.id)))
		__builtin_trap();
	for (size_t i = 0; i < ids.count; i++)
		if (ids.id[i] >= (uint32_t)spm_size(m))
			__builtin_trap();
	for (int i = 0; i < spm_size(m); i++)
		token_ids_add(&ids, (uint32_t)i);
	spm_decode(m, ids.id, ids.count, &back);
	str_release(&back);
	token_ids_release(&ids);
	token_ids_release(&again);
	spm_worker_free(w);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] =
	    " aabc \xe3\x81\x82 A\te\xcc\x81 \xe2\x96\x81<USER> ab\xe6\x97\xa5\xe6\x9c\xac\xff  ";
	char *copy = mem_alloc(size, 1);
	struct spm *m;
	struct err e;

	input_small_pages();
	find_pieces(data, size);
	memcpy(copy, data, size);
	m = spm_new(copy, size, UNIGRAM_TIES_0_2_1, "fuzz", &e);
	if (m) {
		use(m, text, sizeof text - 1);
		use(m, (const char *)data, size < TEXT_MAX ? size : TEXT_MAX);
	}
	spm_free(m);
	return 0;
}
