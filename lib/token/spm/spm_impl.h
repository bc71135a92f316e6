/* spm_impl.h - shared by encoding and decoding with a SentencePiece model */
#ifndef TOKEN_SPM_SPM_IMPL_H
#define TOKEN_SPM_SPM_IMPL_H

#include "lib/token/spm/spm.h"
#include "lib/token/spm/spmbpe.h"
#include "lib/token/spm/spmcut.h"
#include "lib/token/spm/spmnorm.h"
#include "lib/token/spm/spmodel.h"
#include "lib/token/spm/spmuni.h"

/* Read-only after spm_new. */
struct spm {
	struct spmodel model;
	char *bytes;                             /* of the file: texts point into it */
	struct spmnorm normalizer, denormalizer; /* the latter only if it has rules */
	struct spm_unknown unknown;
	struct spmcut cut;
	struct spmbpe bpe; /* BPE and char models */
	struct spmuni uni; /* unigram and word models */
	int16_t *byte;     /* of a piece: the byte that it stands for, or -1 */
};

#endif
