/*
 * check_tokenizer.c - whether the tokenizer of an export gives the ids of the run's own
 *
 * Of the files on the disk: each has the bytes or the members that the export writes, and what is
 * opened of them gives the same ids for every piece alone, for all of them in one text and for
 * texts of many scripts, which depend on nothing but a seed. Texts come without the tokens that a
 * template adds, since a SentencePiece model has none.
 */
#include "export/hf_impl.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/utf8.h"
#include "lib/token/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { TEXTS = 1000, SEED = 1234 };

/* --- files ------------------------------------------------------------------------------------ */

static void
compare_bytes(struct differences *d, const char *file, const struct str *want)
{
	struct str have = { 0 };
	size_t at = 0;

	if (!differ_read(d, file, &have))
		return;
	while (at < have.len && at < want->len && have.buf[at] == want->buf[at])
		at++;
	if (at < have.len || at < want->len)
		differ(d, file, "differs from byte %zu on", at);
	str_release(&have);
}

/* A file that is a copy of one of the tokenizer's. */
static void
compare_copy(struct differences *d, const char *file, const char *src)
{
	struct str want = { 0 };
	struct err why;

	if (io_read_regular(src, 0, &want.buf, &want.len, &why) < 0)
		differ(d, file, "%s", why.msg);
	else
		compare_bytes(d, file, &want);
	str_release(&want);
}

static void
compare_files(struct differences *d, struct job *j)
{
	const struct tokenizer_files *t = &j->tokenizer;
	struct str config = { 0 }, special = { 0 };
	bool copied = j->model && tokenizer_is_json(j->model);

	tokenizer_write_config(t, j->config.max_position_embeddings, &config);
	tokenizer_write_special(t, &special);
	differ_json(d, "tokenizer.json", &t->json);
	differ_json(d, "tokenizer_config.json", &config);
	differ_json(d, "special_tokens_map.json", &special);
	for (int i = 0; copied && i < t->extras.count; i++)
		compare_bytes(d, t->extras.file[i].name, &t->extras.file[i].bytes);
	if (!copied && j->model)
		compare_copy(d, "tokenizer.model", j->model);
	if (!j->model) {
		compare_copy(d, "vocab.json", j->vocab);
		compare_copy(d, "merges.txt", j->merges);
	}
	str_release(&config);
	str_release(&special);
}

static void
check_template(struct differences *d, const char *file)
{
	struct str text = { 0 };
	size_t at;

	if (!differ_read(d, file, &text))
		return;
	at = utf8_check((const unsigned char *)text.buf, text.len);
	if (at < text.len)
		differ(d, file, "not UTF-8 at byte %zu", at);
	str_release(&text);
}

/* The templates of chats are texts. */
static void
check_templates(struct differences *d)
{
	struct hf_files files = { 0 };
	struct err why;

	if (hf_files_list(&files, d->dir, &why) < 0)
		differ(d, CHAT_TEMPLATES, "%s", why.msg);
	for (int i = 0; i < files.count; i++)
		if (hf_files_is_template(files.name[i]))
			check_template(d, files.name[i]);
	hf_files_release(&files);
}

/* --- ids -------------------------------------------------------------------------------------- */

/* The run's own tokenizer and the directory's. */
struct two {
	struct tokenizer *own, *exported;
	struct tokenizer_worker *of_own, *of_exported;
	struct token_ids a, b;
};

/* Of a text, or of a piece alone. */
typedef int encode_fn(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e);

/* Whether both give the same ids, or both none. */
static bool
same_ids(struct two *t, encode_fn *encode, const char *text, size_t len)
{
	struct token_ids *a = &t->a, *b = &t->b;
	struct err why;
	int x, y;

	a->count = b->count = 0;
	x = encode(t->of_own, text, len, a, &why);
	y = encode(t->of_exported, text, len, b, &why);
	if (x < 0 || y < 0)
		return (x < 0) == (y < 0);
	return a->count == b->count &&
	    (a->count == 0 || !memcmp(a->id, b->id, a->count * sizeof *a->id));
}

/* Every piece has the same bytes by its number, and the same ids alone. All that are texts are
 * appended to `all`. */
static void
compare_pieces(struct differences *d, struct two *t, struct str *all)
{
	int64_t n = tokenizer_vocab_size(t->own), other = 0, alone = 0, first = -1;
	struct str x = { 0 }, y = { 0 };

	for (int64_t id = 0; id < n; id++) {
		bool text, differs;

		str_clear(&x);
		str_clear(&y);
		text = tokenizer_surface(t->own, id, &x) == SURFACE_TEXT &&
		    utf8_check((const unsigned char *)x.buf, x.len) == x.len;
		tokenizer_surface(t->exported, id, &y);
		differs = x.len != y.len || (x.len && memcmp(x.buf, y.buf, x.len));
		other += differs;
		if (text) {
			str_add(all, x.buf, x.len);
			alone += !differs && !same_ids(t, tokenizer_encode_piece, x.buf, x.len);
		}
		if (first < 0 && other + alone)
			first = id;
	}
	if (other)
		differ(d, "tokenizer.json", "%lld of %lld ids are of other pieces, %lld first",
		    (long long)other, (long long)n, (long long)first);
	if (alone)
		differ(d, "tokenizer.json",
		    "%lld of %lld pieces have other ids, that of %lld first", (long long)alone,
		    (long long)n, (long long)first);
	str_release(&x);
	str_release(&y);
}

/* Code points of many scripts, blanks and signs among them. Not those that are known to be taken
 * otherwise by a tokenizer.json: combining marks, whose normalisation goes by graphemes there, and
 * blanks other than spaces, which are stripped from both ends. */
static const uint32_t scripts[][2] = { { 0x20, 0x7e }, { 0x61, 0x7a }, { 0x30, 0x39 },
	{ 0x20, 0x20 }, { 0xa1, 0x17f }, { 0x391, 0x3c9 }, { 0x400, 0x45f }, { 0x5d0, 0x5ea },
	{ 0x621, 0x64a }, { 0x905, 0x939 }, { 0xe01, 0xe30 }, { 0x2010, 0x2027 },
	{ 0x3001, 0x3020 }, { 0x3041, 0x3096 }, { 0x30a1, 0x30fa }, { 0x4e00, 0x9fff },
	{ 0xac00, 0xd7a3 }, { 0xff01, 0xff9d }, { 0x1f300, 0x1f3fa }, { 0x1f400, 0x1f64f },
	{ 0x1f900, 0x1f9ff }, { 0x20000, 0x2a6df } };
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

static uint32_t
draw(uint32_t below, uint64_t text, uint32_t *count)
{
	return (uint32_t)((double)rng_uniform(SEED, (*count)++, (uint32_t)text, 0) * below);
}

/* Text number i: stretches of scripts, of pieces, and spellings of control pieces. Before the first
 * piece comes a letter, since SentencePiece puts a blank before one that the user has defined. */
static void
make_text(const struct tokenizer *own, uint64_t i, struct str *out)
{
	uint32_t count = 0, n = 1 + draw(6, i, &count);
	int64_t size = tokenizer_vocab_size(own);

	if (i % 2)
		str_addc(out, 'a');
	while (n-- > 0) {
		uint32_t script = draw(SCRIPTS + (uint32_t)(i % 2) * 8, i, &count),
			 length = 1 + draw(12, i, &count);

		for (uint32_t k = 0; script < SCRIPTS && k < length; k++) {
			const uint32_t *of = scripts[script];
			unsigned char c[4];

			str_add(out, (char *)c,
			    (size_t)utf8_encode(of[0] + draw(of[1] - of[0] + 1, i, &count), c));
		}
		for (uint32_t k = 0; script >= SCRIPTS && k < length; k++)
			tokenizer_surface(own, draw((uint32_t)size, i, &count), out);
	}
}

static void
compare_texts(struct differences *d, struct two *t, const struct str *all)
{
	struct str text = { 0 };
	int wrong = 0, first = -1;

	if (!same_ids(t, tokenizer_encode, all->buf, all->len))
		differ(d, "tokenizer.json", "the text of all pieces has other ids");
	for (int i = 0; i < TEXTS; i++) {
		str_clear(&text);
		make_text(t->own, (uint64_t)i, &text);
		if (utf8_check((const unsigned char *)text.buf, text.len) < text.len ||
		    same_ids(t, tokenizer_encode, text.buf, text.len))
			continue;
		first = wrong++ ? first : i;
	}
	if (wrong)
		differ(d, "tokenizer.json", "%d of %d texts have other ids, number %d first", wrong,
		    TEXTS, first);
	str_release(&text);
}

/* Special ids of the model and of its tokenizer, where both have one. */
static void
compare_specials(struct differences *d, const struct tokenizer *t, const struct model_config *c)
{
	const struct {
		enum tokenizer_special which;
		int64_t id;
	} one[] = { { TOKENIZER_BOS, c->bos_token_id }, { TOKENIZER_PAD, c->pad_token_id } };
	int64_t eos = tokenizer_special(t, TOKENIZER_EOS);
	bool ends = eos < 0 || c->eos_token_id.count == 0;

	for (int i = 0; i < c->eos_token_id.count; i++)
		ends = ends || c->eos_token_id.id[i] == eos;
	for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
		int64_t id = tokenizer_special(t, one[i].which);

		if (id >= 0 && one[i].id >= 0 && id != one[i].id)
			differ(d, "config.json", "%s is %lld, but the tokenizer's is %lld",
			    tokenizer_special_name(one[i].which), (long long)one[i].id,
			    (long long)id);
	}
	if (!ends)
		differ(d, "config.json", "eos is not the tokenizer's, %lld", (long long)eos);
}

/* The tokenizer of the directory; NULL, with a difference, when it does not open. */
static struct tokenizer *
open_exported(struct differences *d)
{
	struct tokenizer_spec spec = { .type = "HuggingFaceTokenizer",
		.special_as_text = true,
		.hf_no_include_special_tokens = true };
	struct str path = { 0 };
	struct tokenizer *t;
	struct err why;

	str_addf(&path, "%s/tokenizer.json", d->dir);
	spec.model = path.buf;
	t = tokenizer_open(&spec, &why);
	if (!t)
		differ(d, CHAT_TEMPLATES, "%s", why.msg);
	str_release(&path);
	return t;
}

/* Ids that the model does not have were taken from the tokenizer. */
void
check_take_ids(const char *dir, struct model_config *c)
{
	struct differences unsaid = { .dir = dir, .lines = &(struct str){ 0 } };
	struct tokenizer *t = open_exported(&unsaid);

	str_release(unsaid.lines);
	if (!t)
		return;
	export_take_ids(
	    c, tokenizer_special(t, TOKENIZER_BOS), tokenizer_special(t, TOKENIZER_EOS));
	tokenizer_close(t);
}

static void
compare_ids(struct differences *d, struct job *j, struct tokenizer *exported)
{
	bool json = j->model && tokenizer_is_json(j->model);
	struct tokenizer_spec spec = { .type = json ? "HuggingFaceTokenizer" : NULL,
		.model = j->model,
		.vocab = j->model ? NULL : j->vocab,
		.merges = j->model ? NULL : j->merges,
		.special_as_text = true,
		.hf_no_include_special_tokens = json };
	struct two t = { .own = tokenizer_open(&spec, j->e), .exported = exported };
	struct str all = { 0 }; /* begins with a letter too */
	int64_t own = t.own ? tokenizer_vocab_size(t.own) : 0,
		have = tokenizer_vocab_size(exported);

	if (!t.own) {
		differ(d, "", "%s", j->e->msg);
		return;
	}
	if (own != have) {
		differ(d, "tokenizer.json", "has %lld tokens, must have %lld", (long long)have,
		    (long long)own);
		tokenizer_close(t.own);
		return;
	}
	str_addc(&all, 'a');
	t.of_own = tokenizer_worker_new(t.own);
	t.of_exported = tokenizer_worker_new(exported);
	compare_pieces(d, &t, &all);
	compare_texts(d, &t, &all);
	tokenizer_worker_free(t.of_own);
	tokenizer_worker_free(t.of_exported);
	tokenizer_close(t.own);
	token_ids_release(&t.a);
	token_ids_release(&t.b);
	str_release(&all);
}

void
check_tokenizer(struct differences *d, struct job *j, const struct model_config *c)
{
	struct str path = { 0 };
	struct tokenizer *t = NULL;
	bool there;

	str_addf(&path, "%s/tokenizer.json", d->dir);
	there = io_exists(path.buf);
	str_release(&path);
	check_templates(d);
	if (j->has_tokenizer)
		compare_files(d, j);
	if (there)
		t = open_exported(d);
	if (t && j->has_tokenizer)
		compare_ids(d, j, t);
	if (t && c && tokenizer_vocab_size(t) > c->vocab_size)
		differ(d, "tokenizer.json", "has %lld tokens, but the model has %lld rows",
		    (long long)tokenizer_vocab_size(t), (long long)c->vocab_size);
	if (t && c)
		compare_specials(d, t, c);
	tokenizer_close(t);
}
