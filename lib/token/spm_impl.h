/* spm_impl.h - what encoding and decoding by a SentencePiece model share */
#ifndef TOKEN_SPM_IMPL_H
#define TOKEN_SPM_IMPL_H

#include "lib/token/spm.h"
#include "lib/token/spmbpe.h"
#include "lib/token/spmcut.h"
#include "lib/token/spmnorm.h"
#include "lib/token/spmodel.h"
#include "lib/token/spmuni.h"

/* Read-only after spm_new. */
struct spm {
	struct spmodel model;
	char *bytes;                             /* of the file: texts point into it */
	struct spmnorm normalizer, denormalizer; /* the latter if it has rules */
	struct spm_unknown unknown;
	struct spmcut cut;
	struct spmbpe bpe; /* BPE and char models */
	struct spmuni uni; /* unigram and word models */
	int16_t *byte;     /* of a piece: the byte that it stands for, or -1 */
};

#endif
