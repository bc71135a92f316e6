/*
 * hf_added.c - the added tokens of a tokenizer.json, and the template of its post-processor
 *
 * Their ids are those that huggingface/tokenizers assigns, which does not read the ids of the file:
 * a token of the vocabulary has its id, and the others are numbered from the size of the vocabulary
 * in their order. Where the vocabulary has holes, an added token may share the id of another one.
 * Of post-processors only the special tokens around a text matter. Source: AddedVocabulary of
 * tokenizers 0.23, tokenizer/added_vocabulary.rs.
 */
#include "lib/base/mem.h"
#include "lib/token/hf/component.h"
#include "lib/token/hf/hf.h"

#include <stdlib.h>
#include <string.h>

/* Bounds for how much longer the normalised texts of added tokens may be than those of the file,
 * and for the number of tokens around a text: few bytes of a file can repeat both. */
enum { GROWTH_MAX = 16, GROWTH_SLACK = 1 << 16, TEMPLATE_MAX = 4096 };

/* --- added tokens ----------------------------------------------------------------------------- */

/* An entry of "added_tokens". */
struct entry {
	struct added_token token;
	bool normalized; /* searched for in the normalised text */
};

/* The entries while ids are assigned. */
struct numbering {
	struct hf_reading *r;
	struct entry *entry;
	int64_t next, highest; /* the next free id; the highest of an added token, or -1 */
};

/* Tokens from the configs are added in another call, which begins after the highest id of those
 * before it. */
static void
begin_configs(struct numbering *n)
{
	int64_t size = (int64_t)n->r->vocab->len;

	n->next = n->highest >= size ? n->highest + 1 : size;
}

/* The id of a token, with its text and role. */
static uint32_t
assign(struct numbering *n, const struct json_value *content, bool special)
{
	struct hf *h = n->r->hf;
	int64_t id = names_add(&n->r->names, content->string, content->len, (uint32_t)n->next);

	if (id < 0) {
		id = n->next++;
		h->text[id] =
		    (struct name){ mem_pool_strndup(&h->pool, content->string, content->len),
			    (uint32_t)content->len, (uint32_t)id };
	}
	h->control[id] |= special;
	if (id > n->highest)
		n->highest = id;
	return (uint32_t)id;
}

/* A token without text is ignored, as by the reference. */
static int
read_entry(struct numbering *n, size_t i, struct err *e)
{
	struct hf_reading *r = n->r;
	const struct json_value *v = &r->added->item[i], *content = json_get(v, "content"),
				*id = json_get(v, "id");
	struct entry *x = &n->entry[i];
	struct added_token *a = &x->token;
	bool special;

	*x = (struct entry){ .token = { .text = content->string, .len = content->len } };
	if (json_bool(v, "special", false, &special, e) < 0 ||
	    json_bool(v, "single_word", false, &a->single_word, e) < 0 ||
	    json_bool(v, "lstrip", false, &a->lstrip, e) < 0 ||
	    json_bool(v, "rstrip", false, &a->rstrip, e) < 0 ||
	    json_bool(v, "normalized", !special, &x->normalized, e) < 0)
		return -1;
	if (content->len == 0)
		return 0;
	a->id = assign(n, content, special);
	if (id && id->integer != a->id && r->num_moved++ == 0)
		r->moved = v;
	return 0;
}

/* Numbers the entries. Of several with one id the last counts: the others lose their text. */
static int
number_entries(struct numbering *n, struct err *e)
{
	struct hf_reading *r = n->r;
	size_t *last;

	n->next = (int64_t)r->vocab->len;
	n->highest = -1;
	for (size_t i = 0; i < r->added->len; i++) {
		struct err why;

		if (i == r->num_listed)
			begin_configs(n);
		if (read_entry(n, i, &why) < 0)
			return err_set(e, "added token '%.40s': %s",
			    json_get(&r->added->item[i], "content")->string, why.msg);
	}
	last = mem_alloc((size_t)r->size, sizeof *last);
	for (size_t i = 0; i < r->added->len; i++)
		if (n->entry[i].token.len)
			last[n->entry[i].token.id] = i;
	for (size_t i = 0; i < r->added->len; i++) {
		struct added_token *a = &n->entry[i].token;

		if (a->len && last[a->id] != i)
			a->len = 0;
		a->skip = r->spec->special_as_text && r->hf->control[a->id];
	}
	free(last);
	return 0;
}

/* The normal forms of the tokens that are searched for in normalised text. */
struct forms {
	struct normal_scratch scratch;
	struct mem_pool pool;
	struct names names;
	size_t given, made; /* bytes */
};

/* An empty form matches between all bytes. Of two tokens with one form the reference takes either.
 */
static int
normalize_added(const struct hf_reading *r, struct added_token *a, struct forms *f, struct err *e)
{
	struct span text = { a->text, a->len, 0 };

	if (normalizer_run(&r->hf->normalizer, &f->scratch, &text, e) < 0)
		return -1;
	f->given += a->len;
	f->made += text.n;
	if (f->made > GROWTH_MAX * f->given + GROWTH_SLACK)
		return err_set(
		    e, "the normalizer makes these more than %d times longer", GROWTH_MAX);
	a->empty = text.n == 0;
	a->text = mem_pool_strndup(&f->pool, text.s, text.n);
	a->len = text.n;
	return names_add(&f->names, a->text, a->len, 0) < 0
	    ? 0
	    : err_set(e, "the normalizer makes it equal to another one");
}

/* The set of those that are searched for before the normalizer, or after it. */
static int
make_set(struct numbering *n, bool normalized, struct added **out, struct err *e)
{
	struct added_token *set = mem_alloc(n->r->added->len, sizeof *set);
	struct forms f = { .scratch = { .regex = regex_scratch_new() } };
	size_t count = 0;
	struct err why;
	int rc = 0;

	names_init(&f.names, n->r->added->len);
	for (size_t i = 0; i < n->r->added->len && rc == 0; i++) {
		struct added_token a = n->entry[i].token;

		if (a.len == 0 || n->entry[i].normalized != normalized)
			continue;
		rc = normalized ? normalize_added(n->r, &a, &f, &why) : 0;
		if (rc < 0)
			err_set(e, "added token '%.40s': %s", n->entry[i].token.text, why.msg);
		else
			set[count++] = a;
	}
	if (rc == 0)
		*out = added_new(set, count);
	free(set);
	names_release(&f.names);
	normal_scratch_release(&f.scratch);
	regex_scratch_free(f.scratch.regex);
	mem_pool_release(&f.pool);
	return rc;
}

/* The room for all ids shrinks to the ids that there are. */
int
hf_added(struct hf_reading *r, struct err *e)
{
	struct numbering n = { .r = r };
	int rc;

	n.entry = mem_zalloc(r->added->len, sizeof *n.entry);
	rc = number_entries(&n, e);
	r->size = r->model_size > n.highest ? r->model_size : n.highest + 1;
	if (rc == 0 && r->size == 0)
		rc = err_set(e, "it has no tokens");
	if (rc == 0 &&
	    (make_set(&n, false, &r->hf->raw, e) < 0 ||
		make_set(&n, true, &r->hf->normalized, e) < 0))
		rc = -1;
	free(n.entry);
	return rc;
}

/* With the first of them as an example. */
void
hf_added_notes(const struct hf_reading *r, struct tokenizer *t)
{
	const struct json_value *content = json_get(r->moved, "content");

	if (!r->moved)
		return;
	str_addf(&t->notes, "%s: added token '%.40s' has id %lld, not %lld as in the file",
	    t->file[0], content->string,
	    (long long)names_find(&r->names, content->string, content->len),
	    (long long)json_get(r->moved, "id")->integer);
	if (r->num_moved > 1)
		str_addf(&t->notes, ", and %zu more have others", r->num_moved - 1);
	str_adds(&t->notes, ": tokenizers numbers them in their order\n");
}

/* --- post-processor --------------------------------------------------------------------------- */

/* The ids of a special token of a template, which its map has under the token's name. */
static int
add_template_token(const struct hf_reading *r, const struct json_value *tokens,
    const struct json_value *special, struct token_ids *out, struct err *e)
{
	const struct json_value *name = json_get(special, "id"), *ids;

	if (!name || name->type != JSON_STRING)
		return err_set(e, "a token without an id");
	ids = json_get(json_get(tokens, name->string), "ids");
	if (!ids || ids->type != JSON_ARRAY)
		return err_set(e, "no ids of '%.40s'", name->string);
	if (ids->len > TEMPLATE_MAX - out->count)
		return err_set(e, "more than %d tokens", TEMPLATE_MAX);
	for (size_t i = 0; i < ids->len; i++) {
		if (ids->item[i].type != JSON_INT || ids->item[i].integer < 0 ||
		    ids->item[i].integer >= r->size)
			return err_set(e, "an id of '%.40s' is not a token", name->string);
		token_ids_add(out, (uint32_t)ids->item[i].integer);
	}
	return 0;
}

/* Inserts ids before the existing ones. */
static void
prepend(struct token_ids *list, struct token_ids *front)
{
	for (size_t i = 0; i < list->count; i++)
		token_ids_add(front, list->id[i]);
	token_ids_release(list);
	*list = *front;
}

/* "single": special tokens before and after the one Sequence. */
static int
read_template(struct hf_reading *r, const struct json_value *v, struct err *e)
{
	const struct json_value *single, *tokens = json_get(v, "special_tokens");
	struct token_ids front = { 0 };
	int sequences = 0, rc = 0;

	if (hf_list(v, "single", &single, e) < 0)
		return -1;
	if (single->len > TEMPLATE_MAX)
		return err_set(e, "more than %d entries in \"single\"", TEMPLATE_MAX);
	for (size_t i = 0; i < single->len && rc == 0; i++) {
		const struct json_value *special = json_get(&single->item[i], "SpecialToken");

		sequences += json_get(&single->item[i], "Sequence") != NULL;
		if (special)
			rc = add_template_token(
			    r, tokens, special, sequences ? &r->hf->after : &front, e);
	}
	prepend(&r->hf->before, &front);
	if (rc == 0 && r->hf->before.count > TEMPLATE_MAX)
		return err_set(e, "more than %d tokens", TEMPLATE_MAX);
	return rc < 0 || sequences == 1
	    ? rc
	    : err_set(e, "%d sequences in \"single\"; 1 is supported", sequences);
}

/* A member [text, id] of a RobertaProcessing or BertProcessing. */
static int
read_pair(const struct hf_reading *r, const struct json_value *v, const char *key,
    struct token_ids *out, struct err *e)
{
	const struct json_value *pair = json_get(v, key);

	if (!pair || pair->type != JSON_ARRAY || pair->len != 2 || pair->item[1].type != JSON_INT ||
	    pair->item[1].integer < 0 || pair->item[1].integer >= r->size)
		return err_set(e, "\"%s\" must be a token and its id", key);
	token_ids_add(out, (uint32_t)pair->item[1].integer);
	return 0;
}

/* cls before the text, sep after it. */
static int
read_cls_sep(struct hf_reading *r, const struct json_value *v, struct err *e)
{
	struct token_ids front = { 0 };
	int rc = read_pair(r, v, "cls", &front, e);

	prepend(&r->hf->before, &front);
	return rc < 0 ? -1 : read_pair(r, v, "sep", &r->hf->after, e);
}

struct processor {
	const char *name;
	/* NULL: it adds no ids */
	int (*read)(struct hf_reading *r, const struct json_value *v, struct err *e);
};

static const struct processor processors[] = {
	{ "TemplateProcessing", read_template },
	{ "RobertaProcessing", read_cls_sep },
	{ "BertProcessing", read_cls_sep },
	{ "ByteLevel", NULL },
};

/* By its row. */
static int
add_processor(void *owner, const void *kind, const struct json_value *v, struct err *e)
{
	const struct processor *p = kind;

	return p->read ? p->read(owner, v, e) : 0;
}

static const struct component component = { "post_processor", "processors", COMPONENT_STEPS,
	processors, sizeof *processors, sizeof processors / sizeof *processors, add_processor };

/* In a Sequence, each goes around the one before it. */
int
hf_template(struct hf_reading *r, const struct json_value *v, struct err *e)
{
	return component_parse(&component, r, v, e);
}
