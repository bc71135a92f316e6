/* spmodel.c - fuzz target: any bytes as a SentencePiece model; what is accepted can be looked up */
#include "lib/token/spmodel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spmodel m;
	struct err e;

	if (spmodel_parse(&m, data, size, "fuzz", &e) == 0)
		for (int i = 0; i < m.count; i++)
			if (spmodel_find(&m, m.piece[i].text, m.piece[i].len) != i)
				__builtin_trap();
	spmodel_release(&m);
	return 0;
}
