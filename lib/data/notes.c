/*
 * notes.c - PREFIX.json: how a dataset was made
 *
 * No date and no number of workers: two runs that give the same dataset give the same notes. Only
 * what decides whether datasets belong together is read back; the rest is for people.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/data/dataset_impl.h"
#include "lib/data/notes.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 28 }; /* room for some million inputs */

/* notes_release frees the strings; an unknown struct has none. */
void
notes_init(struct notes *n)
{
	*n = (struct notes){ .vocab_size = NOTES_UNKNOWN,
		.append_eod = NOTES_UNKNOWN,
		.special_as_text = NOTES_UNKNOWN,
		.eod_id = NOTES_UNKNOWN,
		.bos_id = NOTES_UNKNOWN };
}

/* Everything is unknown afterwards. */
void
notes_release(struct notes *n)
{
	mem_pool_release(&n->pool);
	notes_init(n);
}

/* true and false as 1 and 0; a missing member is unknown. */
static int
read_bool(const struct json_value *v, const char *key, int64_t *out, struct err *e)
{
	const struct json_value *m = json_get(v, key);
	bool b;

	if (json_bool(v, key, false, &b, e) < 0)
		return -1;
	*out = m && m->type == JSON_BOOL ? b : NOTES_UNKNOWN;
	return 0;
}

/* A tokenizer without a hash could not be compared, so either both are known or neither. Entries of
 * its files that are not strings are skipped. */
static int
read_tokenizer(const struct json_value *v, struct notes *n, struct err *e)
{
	const struct json_value *files = json_get(v, "files");
	const char *type, *hash, *ties, *like, *end;
	uint64_t sum;

	if (json_string(v, "type", NULL, &type, e) < 0 ||
	    json_string(v, "hash", NULL, &hash, e) < 0 ||
	    json_string(v, "unigram_ties", NULL, &ties, e) < 0 ||
	    json_string(v, "tokenizer_like", NULL, &like, e) < 0 ||
	    json_int(v, "vocab_size", NOTES_UNKNOWN, &n->vocab_size, e) < 0)
		return -1;
	if (!type || !hash)
		return 0;
	end = hash_read(hash, &sum);
	if (!end || *end)
		return err_set(
		    e, "the tokenizer's hash '%.40s' is not 16 hexadecimal digits", hash);
	n->type = mem_pool_strndup(&n->pool, type, strlen(type));
	memcpy(n->hash, hash, sizeof n->hash);
	n->unigram_ties = ties ? mem_pool_strndup(&n->pool, ties, strlen(ties)) : NULL;
	n->tokenizer_like = like ? mem_pool_strndup(&n->pool, like, strlen(like)) : NULL;
	if (!files || files->type != JSON_ARRAY || files->len > INT32_MAX)
		return 0;
	n->file = mem_pool_alloc(&n->pool, files->len + 1, sizeof *n->file);
	for (size_t i = 0; i < files->len; i++)
		if (files->item[i].type == JSON_STRING)
			n->file[n->num_files++] =
			    mem_pool_strndup(&n->pool, files->item[i].string, files->item[i].len);
	return 0;
}

/* The name is of a dataset in the same directory. */
static int
read_mask(const struct json_value *root, struct mem_pool *pool, const char **out, struct err *e)
{
	const char *mask;

	if (json_string(root, "mask", NULL, &mask, e) < 0)
		return -1;
	if (mask && (!*mask || strchr(mask, '/')))
		return err_set(e, "the mask '%.40s' is not a name in the same directory", mask);
	*out = mask ? mem_pool_strndup(pool, mask, strlen(mask)) : NULL;
	return 0;
}

/* Another program's PREFIX.json may lack every member: then everything is unknown. */
static int
read_members(const struct json_value *root, struct notes *n, struct err *e)
{
	if (root->type != JSON_OBJECT)
		return err_set(e, "not a JSON object");
	if (read_tokenizer(json_get(root, "tokenizer"), n, e) < 0 ||
	    read_mask(root, &n->pool, &n->mask, e) < 0 ||
	    read_bool(root, "append_eod", &n->append_eod, e) < 0 ||
	    read_bool(root, "special_as_text", &n->special_as_text, e) < 0 ||
	    json_int(root, "bos_id", NOTES_UNKNOWN, &n->bos_id, e) < 0)
		return -1;
	return json_int(root, "eod_id", NOTES_UNKNOWN, &n->eod_id, e);
}

/* The file is bounded and parsed before any of it is trusted. */
int
notes_read(const char *prefix, struct notes *n, struct err *e)
{
	char *path = dataset_path(prefix, ".json");
	struct json *j = NULL;
	struct err why;
	int rc;

	notes_init(n);
	rc = io_there(path, e);
	if (rc > 0) {
		j = json_read_regular(path, MAX_BYTES, e);
		rc = j ? 1 : -1;
	}
	if (j && read_members(json_root(j), n, &why) < 0)
		rc = err_at(e, path, 0, "%s", why.msg);
	json_free(j);
	free(path);
	return rc;
}

/* A file that is not JSON may be another program's, and one of ours that is damaged has its mask
 * under the usual name. */
int
notes_read_mask(const char *prefix, struct mem_pool *pool, const char **mask, struct err *e)
{
	char *path = dataset_path(prefix, ".json");
	struct json *j = io_there(path, NULL) > 0 ? json_read_regular(path, MAX_BYTES, NULL) : NULL;
	struct err why;
	int rc = 0;

	*mask = NULL;
	if (j && json_root(j)->type == JSON_OBJECT && read_mask(json_root(j), pool, mask, &why) < 0)
		rc = err_at(e, path, 0, "%s", why.msg);
	json_free(j);
	free(path);
	return rc;
}

/* An unknown tokenizer agrees with every other. */
bool
notes_agree(const struct notes *a, const struct notes *b)
{
	return !a->type || !b->type || !strcmp(a->hash, b->hash);
}

/* The file names of the first are kept: with equal hashes the files held the same bytes. */
void
notes_merge(struct notes *into, const struct notes *other)
{
	if (!into->type || !other->type || strcmp(into->hash, other->hash)) {
		into->type = NULL;
		into->hash[0] = '\0';
		into->num_files = 0;
	}
	if (!into->type || !into->unigram_ties || !other->unigram_ties ||
	    strcmp(into->unigram_ties, other->unigram_ties) != 0)
		into->unigram_ties = NULL;
	/* equal hashes are of one release */
	if (!into->type)
		into->tokenizer_like = NULL;
	if (!into->type || into->vocab_size != other->vocab_size)
		into->vocab_size = NOTES_UNKNOWN;
	if (into->append_eod != other->append_eod)
		into->append_eod = NOTES_UNKNOWN;
	if (into->special_as_text != other->special_as_text)
		into->special_as_text = NOTES_UNKNOWN;
	if (into->eod_id != other->eod_id)
		into->eod_id = NOTES_UNKNOWN;
	if (into->bos_id != other->bos_id)
		into->bos_id = NOTES_UNKNOWN;
}

/* "name": value; unknown is null. */
static void
add_int(struct str *out, const char *name, int64_t value)
{
	str_addf(out, "\"%s\": ", name);
	if (value == NOTES_UNKNOWN)
		str_adds(out, "null");
	else
		str_addf(out, "%lld", (long long)value);
}

/* The same for true and false. */
static void
add_bool(struct str *out, const char *name, int64_t value)
{
	str_addf(out, "\"%s\": %s", name,
	    value == NOTES_UNKNOWN ? "null"
		: value            ? "true"
				   : "false");
}

/* Identifies the tokenizer, for later comparisons. */
static void
add_tokenizer(const struct notes *n, struct str *out)
{
	if (!n->type) {
		str_adds(out, "  \"tokenizer\": null,\n");
		return;
	}
	str_adds(out, "  \"tokenizer\": {\n    \"type\": ");
	str_add_json(out, n->type, strlen(n->type));
	str_addf(out, ",\n    \"hash\": \"%s\",\n    ", n->hash);
	add_int(out, "vocab_size", n->vocab_size);
	str_adds(out, ",\n    \"files\": [");
	for (int i = 0; i < n->num_files; i++) {
		str_adds(out, i ? ", " : "");
		str_add_json(out, n->file[i], strlen(n->file[i]));
	}
	str_adds(out, "]");
	if (n->unigram_ties) {
		str_adds(out, ",\n    \"unigram_ties\": ");
		str_add_json(out, n->unigram_ties, strlen(n->unigram_ties));
	}
	if (n->tokenizer_like) {
		str_adds(out, ",\n    \"tokenizer_like\": ");
		str_add_json(out, n->tokenizer_like, strlen(n->tokenizer_like));
	}
	str_adds(out, "\n  },\n");
}

/* Indented by 2, as members of the file's only object. */
void
notes_add_members(const struct notes *n, struct str *out)
{
	add_tokenizer(n, out);
	str_adds(out, "  ");
	add_bool(out, "append_eod", n->append_eod);
	str_adds(out, ",\n  ");
	add_int(out, "eod_id", n->eod_id);
	str_adds(out, ",\n  ");
	add_bool(out, "special_as_text", n->special_as_text);
	str_adds(out, ",\n");
	if (n->bos_id != NOTES_UNKNOWN)
		str_addf(out, "  \"bos_id\": %lld,\n", (long long)n->bos_id);
	if (n->mask) {
		str_adds(out, "  \"mask\": ");
		str_add_json(out, n->mask, strlen(n->mask));
		str_adds(out, ",\n");
	}
}

/* Inputs are the prefixes as given, and where each piece begins. */
void
notes_text(const struct notes *n, const struct notes_origin *o, const struct dataset_counts *counts,
    struct str *out)
{
	str_adds(out, "{\n  \"made_by\": ");
	str_add_json(out, o->made_by, strlen(o->made_by));
	str_adds(out, ",\n");
	notes_add_members(n, out);
	str_adds(out, "  \"inputs\": [\n");
	for (int i = 0; i < o->num_inputs; i++) {
		const struct notes_input *in = &o->input[i];

		str_adds(out, "    {\"file\": ");
		str_add_json(out, in->file, strlen(in->file));
		str_addf(out, ", \"bytes\": %lld", (long long)in->bytes);
		if (in->first_document >= 0)
			str_addf(out, ", \"first_document\": %lld", (long long)in->first_document);
		str_addf(out, "}%s\n", i + 1 < o->num_inputs ? "," : "");
	}
	str_addf(out,
	    "  ],\n  \"documents\": %lld,\n  \"sequences\": %lld,\n  \"tokens\": %lld\n}\n",
	    (long long)counts->documents, (long long)counts->sequences, (long long)counts->tokens);
}

/* The counts, and the name of the mask, are those of the writer. */
void
notes_describe(struct dataset_writer *w, const struct notes *n, const struct notes_origin *o)
{
	struct dataset_counts counts = dataset_writer_counts(w);
	struct notes own = *n;
	struct str text = { 0 };

	own.mask = dataset_writer_mask_name(w);
	notes_text(&own, o, &counts, &text);
	dataset_writer_describe(w, text.buf);
	str_release(&text);
}
