/*
 * spm.c - encoding by a SentencePiece model, this program's and libsentencepiece's, in one thread
 *
 * usage: spm MODEL FILE MEGABYTES [PEER_MEGABYTES]. FILE holds documents, each ended by a NUL byte;
 * they are encoded until MEGABYTES (10^6) are through, from the first again if need be, with a new
 * worker; the peer encodes the first PEER_MEGABYTES (a tenth by default). Prints both rates in MB/s
 * of user CPU time and the quotient. Ids that differ are an error.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/spm.h"
#include "tests/spm_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct documents {
	char *bytes;
	size_t len;
};

static double
user_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec;
}

/* The next document after *at, beginning again at the end. */
static const char *
next(const struct documents *d, size_t *at, size_t *len)
{
	const char *text;

	if (*at >= d->len)
		*at = 0;
	text = d->bytes + *at;
	*len = strnlen(text, d->len - *at);
	*at += *len + 1;
	return text;
}

/* MB/s of ours over `bytes` of text. */
static double
time_ours(const struct spm *m, const struct documents *d, size_t bytes)
{
	struct spm_worker *w = spm_worker_new(m);
	struct token_ids ids = { 0 };
	struct err e;
	double start = user_seconds();
	size_t done = 0;

	for (size_t at = 0, len; done < bytes; done += len + 1) {
		const char *text = next(d, &at, &len);

		ids.count = 0;
		if (spm_encode(m, w, text, len, &ids, &e) < 0)
			fprintf(stderr, "%s\n", e.msg);
	}
	start = user_seconds() - start;
	spm_worker_free(w);
	token_ids_release(&ids);
	return (double)done / 1e6 / start;
}

/* MB/s of the library. */
static double
time_peer(struct oracle *o, const struct documents *d, size_t bytes)
{
	double start = user_seconds();
	size_t done = 0, count;

	for (size_t at = 0, len; done < bytes; done += len + 1) {
		const char *text = next(d, &at, &len);

		if (!oracle_encode(o, text, len, &count))
			fprintf(stderr, "the library fails\n");
	}
	return (double)done / 1e6 / (user_seconds() - start);
}

/* The same texts through both. */
static int
compare(const struct spm *m, struct oracle *o, const struct documents *d, size_t bytes)
{
	struct spm_worker *w = spm_worker_new(m);
	struct token_ids ids = { 0 };
	struct err e;
	size_t done = 0, count;
	int differ = 0;

	for (size_t at = 0, len; done < bytes; done += len + 1) {
		const char *text = next(d, &at, &len);
		const int *want = oracle_encode(o, text, len, &count);

		ids.count = 0;
		if (spm_encode(m, w, text, len, &ids, &e) < 0 || !want || count != ids.count ||
		    memcmp(want, ids.id, count * sizeof *want) != 0)
			differ++;
	}
	spm_worker_free(w);
	token_ids_release(&ids);
	return differ;
}

int
main(int argc, char **argv)
{
	struct documents d;
	struct err e;
	struct oracle *o;
	struct spm *m;
	char *model;
	size_t len, bytes, peer_bytes;
	double ours, peer;
	int differ;

	if (argc < 4 || io_read_file(argv[1], 0, &model, &len, &e) < 0 ||
	    io_read_file(argv[2], 0, &d.bytes, &d.len, &e) < 0) {
		fprintf(stderr, "usage: spm MODEL FILE MEGABYTES [PEER_MEGABYTES]\n");
		return 2;
	}
	bytes = (size_t)(atof(argv[3]) * 1e6);
	peer_bytes = argc > 4 ? (size_t)(atof(argv[4]) * 1e6) : bytes / 10;
	o = oracle_new(model, len);
	m = spm_new(model, len, argv[1], &e);
	if (!o || !m)
		return 1;
	ours = time_ours(m, &d, bytes);
	peer = time_peer(o, &d, peer_bytes);
	differ = compare(m, o, &d, peer_bytes);
	printf("%.1f\t%.1f\t%.1f\n", ours, peer, ours / peer);
	if (differ)
		fprintf(stderr, "%d documents differ\n", differ);
	oracle_free(o);
	spm_free(m);
	free(d.bytes);
	return differ != 0;
}
