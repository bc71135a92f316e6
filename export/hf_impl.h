/* hf_impl.h - what writing an export and checking one have in common */
#ifndef EXPORT_HF_IMPL_H
#define EXPORT_HF_IMPL_H

#include "export/found.h"
#include "export/hf.h"
#include "export/origin.h"
#include "export/place.h"
#include "export/tokenizer.h"

/* State of an export; released by export_release in every case. */
struct job {
	const struct export_options *o;
	struct source *src;
	struct model_config config; /* the source's, with what the tokenizer adds */
	struct hf_export x;
	struct tokenizer_files tokenizer;
	bool has_tokenizer;
	const char *model, *vocab, *merges; /* its files */
	struct found_tokenizer found;
	struct origin origin;
	struct place place;
	struct str *notes, *warnings;
	struct err *e;
};

/* Opens the source and its tokenizer, and decides what is written. */
int export_open(struct job *j);
void export_release(struct job *j);
/* Special ids of a tokenizer for a model without; -1: it has none either. */
void export_take_ids(struct model_config *c, int64_t bos, int64_t eos);
/* The texts that are generated, whose names the first have. */
void export_config_text(struct job *j, struct str *out);
void export_generation_text(struct job *j, struct str *out);

/* What is wrong with a directory, as lines "DIR/FILE: what". */
struct differences {
	const char *dir;
	struct str *lines;
	int count;
};
void differ(struct differences *d, const char *file, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads a file of the directory; false, with a difference, when it cannot be. */
bool differ_read(struct differences *d, const char *file, struct str *out);
/* A difference for each member of a file that is another one than in the text of an export. */
void differ_json(struct differences *d, const char *file, const struct str *want);

/* Whether the tokenizer of the directory is that of the export, file by file and id by id; where
 * the job has none, whether it is one for such a model. */
void check_tokenizer(struct differences *d, struct job *j, const struct model_config *c);

/* The same of a directory's tokenizer, if it has one. */
void check_take_ids(const char *dir, struct model_config *c);

#endif
