/*
 * family.c - the families by name, and code that they share
 *
 * The tests, mckpt and mexport walk the registry and need no edit for a new family. config.json has
 * two generations of rotary settings, old members at the top level and the newer rope_parameters:
 * both are read and both are written, so that old and new versions of transformers load the result.
 */
#include "lib/base/hub.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/model/family_impl.h"
#include "lib/model/family_list.h"
#include "lib/model/fields.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(name) extern const struct family family_##name;
#define ENTRY(name) &family_##name,

FAMILIES(DECLARE)

static const struct family *const families[] = { FAMILIES(ENTRY) NULL };

/* In the order in which family_of tries them. */
const struct family *const *
family_all(void)
{
	return families;
}

/* By config.json's "model_type", which must match exactly and is lower case. */
const struct family *
family_find(const char *model_type)
{
	for (int i = 0; families[i]; i++)
		if (!strcmp(families[i]->model_type, model_type))
			return families[i];
	return NULL;
}

/* By an alias too, for files that are read. */
static const struct family *
find_for_reading(const char *model_type)
{
	const struct family *f = family_find(model_type);

	for (int i = 0; !f && families[i]; i++)
		for (const char *const *a = families[i]->aliases; a && *a; a++)
			if (!strcmp(*a, model_type))
				f = families[i];
	return f;
}

/* Fields that no config.json has, and the meaning of missing members. */
void
family_defaults(struct model_config *c)
{
	model_defaults(c, MODEL_BASE);
}

/* An id or a list of ids; older files write -1 for none. */
static int
id_list(const struct json_value *config, const char *key, struct id_list *out, struct err *e)
{
	const struct json_value *v = json_get(config, key);
	struct err why;
	int64_t id;

	if (!v || v->type != JSON_ARRAY)
		return json_int(config, key, -1, &id, e) < 0 ? -1
		    : id < 0                                 ? 0
							     : id_list_add(out, id, e);
	for (size_t i = 0; i < v->len; i++) {
		if (v->item[i].type != JSON_INT)
			return err_set(e, "\"%s\" must be an integer or a list of integers", key);
		if (id_list_add(out, v->item[i].integer, &why) < 0)
			return err_set(e, "\"%s\": %s", key, why.msg);
	}
	return 0;
}

/* The first of a list counts: there is only one of these. */
static int
token_id(const struct json_value *config, const char *key, int64_t *out, struct err *e)
{
	struct id_list ids = { 0 };

	if (id_list(config, key, &ids, e) < 0)
		return -1;
	*out = ids.count ? ids.id[0] : -1;
	return 0;
}

/* Members that all families have, apart from the special ids. */
const struct key family_shared[] = {
	{ "initializer_range", KEY_NUMBER, KEY_OFF(init_method_std), .stays = true },
};
const int family_num_shared = sizeof family_shared / sizeof *family_shared;

/* The reason why there is no family of a type. */
static void
explain_type(const char *model_type, struct err *e)
{
	struct str known = { 0 };

	for (int i = 0; families[i]; i++)
		str_addf(&known, "%s%s", i ? ", " : "", families[i]->model_type);
	err_set(e, "\"model_type\" is '%s'; known are %s", model_type, known.buf);
	str_release(&known);
}

/* A type whose models are a family's has defaults of its own. */
static int
check_alias(const struct json_value *config, const char *model_type, struct err *e)
{
	const char *missing =
	    json_get(config, "num_key_value_heads") ? NULL : "num_key_value_heads";

	if (!json_get(config, "rope_theta") && !json_get(family_rope_of(config), "rope_theta"))
		missing = "rope_theta";
	return missing ? err_set(e, "\"%s\" is missing, whose default in %.40s is not known here",
			     missing, model_type)
		       : 0;
}

/*
 * The family's own reader runs after the shared members, and model_check after everything, so a
 * foreign file obeys the same rules as options. *f may be set even on failure.
 */
static int
read_members(
    struct model_config *c, const struct json_value *config, const struct family **f, struct err *e)
{
	const char *model_type;
	bool tied;

	if (json_string(config, "model_type", NULL, &model_type, e) < 0)
		return -1;
	if (!model_type)
		return err_set(e, "\"model_type\" is missing");
	*f = find_for_reading(model_type);
	if (!*f) {
		explain_type(model_type, e);
		return -1;
	}
	if (strcmp((*f)->model_type, model_type) && check_alias(config, model_type, e) < 0)
		return -1;
	family_defaults(c);
	if (token_id(config, "bos_token_id", &c->bos_token_id, e) < 0 ||
	    id_list(config, "eos_token_id", &c->eos_token_id, e) < 0 ||
	    token_id(config, "pad_token_id", &c->pad_token_id, e) < 0 ||
	    keys_read(family_shared, family_num_shared, config, c, e) < 0 ||
	    json_bool(config, "tie_word_embeddings", (*f)->tied, &tied, e) < 0 ||
	    keys_read((*f)->keys, (*f)->num_keys, config, c, e) < 0)
		return -1;
	c->untie_embeddings_and_output_weights = !tied;
	if (family_check_off(*f, config, e) < 0)
		return -1;
	return (*f)->read_rest(c, config, e) < 0 ? -1 : model_check(c, e);
}

/* What the outer object of several modalities lends the text's, where that lacks it. */
static const char *const lent[] = { "tie_word_embeddings", "dtype", "torch_dtype", "bos_token_id",
	"eos_token_id", "pad_token_id" };
enum { LENT = sizeof lent / sizeof *lent };

/* The text's config of a model with several modalities, as an object whose members the caller
 * frees; *items is NULL where the file has one config. */
static struct json_value
text_config(const struct json_value *root, struct json_value **items)
{
	const struct json_value *text = json_get(root, "text_config");
	struct json_value joined = { .type = JSON_OBJECT };

	*items = NULL;
	if (!text || text->type != JSON_OBJECT || !json_get(text, "model_type"))
		return *root;
	*items = mem_alloc(text->len + LENT, sizeof **items);
	for (int i = 0; i < LENT; i++) {
		const struct json_value *m = json_get(root, lent[i]);

		if (m && !json_get(text, lent[i]))
			(*items)[joined.len++] = *m;
	}
	if (text->len)
		memcpy(*items + joined.len, text->item, text->len * sizeof **items);
	joined.len += text->len;
	joined.item = *items;
	return joined;
}

/* The two sizes of "weight_block_size"; false where it is something else. */
static bool
read_block(const struct json_value *sizes, int64_t block[2])
{
	enum { LARGEST = 1 << 20 };

	if (family_is_off(sizes))
		return true;
	for (int i = 0; i < 2; i++) {
		if (sizes->type != JSON_ARRAY || sizes->len != 2 ||
		    sizes->item[i].type != JSON_INT || sizes->item[i].integer < 1 ||
		    sizes->item[i].integer > LARGEST)
			return false;
		block[i] = sizes->item[i].integer;
	}
	return true;
}

/* How the weights are quantised, by the word for it. */
static void
read_quantised(
    const struct json_value *config, const struct json_value *root, struct config_quantised *out)
{
	static const char key[] = "quantization_config";
	const struct json_value *q = json_get(config, key), *method;

	if (family_is_off(q))
		q = json_get(root, key);
	if (family_is_off(q))
		return;
	method = json_get(q, "quant_method");
	snprintf(out->method, sizeof out->method, "%s",
	    method && method->type == JSON_STRING ? method->string : "an unknown method");
	out->decoded = !strcmp(out->method, "mxfp4") || !strcmp(out->method, "fp8");
	if (!read_block(json_get(q, "weight_block_size"), out->block)) {
		snprintf(out->method, sizeof out->method, "fp8 in blocks of no known size");
		out->decoded = false;
	}
}

/* Everything of a file but the model. */
static void
read_besides(const struct family *f, const struct json_value *config, const struct json_value *root,
    const char *file, struct config_rest *rest)
{
	static const char *const others[] = { "text_config", "vision_config", "audio_config" };
	static const char *const mtp[] = { "num_nextn_predict_layers", "num_mtp_layers" };
	const char *type = "";

	for (int i = 0; i < 3; i++)
		rest->other_modality |= !family_is_off(json_get(root, others[i]));
	for (int i = 0; i < 2; i++)
		if (json_get(config, mtp[i]) && json_get(config, mtp[i])->type == JSON_INT)
			rest->num_mtp_layers = json_get(config, mtp[i])->integer;
	read_quantised(config, root, &rest->quantised);
	json_string(root, "model_type", "", &type, NULL);
	if (rest->other_modality)
		str_addf(
		    &rest->notes, "%s: of a %.60s model the text's part is read\n", file, type);
	family_note_members(f, config, file, &rest->notes);
}

void
config_rest_release(struct config_rest *rest)
{
	str_release(&rest->notes);
}

/* Reads what a file says; name is for messages. */
static const struct family *
read_root(const struct json_value *root, const char *name, struct model_config *c,
    struct config_rest *rest, struct err *e)
{
	const struct family *f = NULL;
	struct json_value config, *items = NULL;
	struct err why;

	config = text_config(root, &items);
	if (config.type != JSON_OBJECT) {
		err_at(e, name, 0, "not a JSON object");
	} else if (read_members(c, &config, &f, &why) < 0) {
		err_at(e, name, 0, "%s", why.msg);
		f = NULL;
	} else if (rest) {
		read_besides(f, &config, root, name, rest);
	}
	free(items);
	return f;
}

const struct family *
family_parse_config(const char *text, const char *name, struct model_config *c, struct err *e)
{
	struct json *j = json_parse(text, strlen(text), name, e);
	const struct family *f = j ? read_root(json_root(j), name, c, NULL, e) : NULL;

	json_free(j);
	return f;
}

/*
 * path may be the directory. 16 MiB is far above any config. On failure returns NULL with a message
 * that names the file, and c is undefined.
 */
const struct family *
family_read_config(
    const char *path, struct model_config *c, struct config_rest *rest, struct err *e)
{
	char dir[IO_PATH], file[IO_PATH + 16];
	const struct family *f;
	struct json *j;

	if (rest)
		memset(rest, 0, sizeof *rest);
	if (hub_check(path, "a directory with its config.json", e) < 0 ||
	    hub_snapshot(path, dir, e) < 0)
		return NULL;
	snprintf(file, sizeof file, "%s%s", dir, io_is_dir(dir) ? "/config.json" : "");
	if (hub_check_pointer(file, e) < 0)
		return NULL;
	j = json_read_python(file, 1 << 24, e);
	f = j ? read_root(json_root(j), file, c, rest, e) : NULL;
	json_free(j);
	return f;
}

void
family_write_ids(const struct model_config *c, bool nulls, struct str *out)
{
	const struct {
		const char *key;
		const int64_t *id;
		int count;
	} member[] = {
		{ "bos_token_id", &c->bos_token_id, c->bos_token_id >= 0 },
		{ "eos_token_id", c->eos_token_id.id, c->eos_token_id.count },
		{ "pad_token_id", &c->pad_token_id, c->pad_token_id >= 0 },
	};

	/* One id is a number, and several are a list. */
	for (size_t i = 0; i < sizeof member / sizeof *member; i++) {
		int n = member[i].count;

		if (!n && !nulls)
			continue;
		str_addf(out, ",\n  \"%s\": %s", member[i].key, n > 1 ? "[" : n ? "" : "null");
		for (int k = 0; k < n; k++)
			str_addf(out, "%s%s%lld", k ? "," : "", n > 1 ? "\n    " : "",
			    (long long)member[i].id[k]);
		if (n > 1)
			str_adds(out, "\n  ]");
	}
}

/*
 * Both "dtype" and "torch_dtype" are written: the member was renamed, and either version of
 * transformers ignores the other's. vocab_size is the real one; padding rows are never on disk.
 */
void
family_write_config(
    const struct family *f, const struct model_config *c, const char *torch_dtype, struct str *out)
{
	str_addf(out, "{\n  \"architectures\": [\n    \"%s\"\n  ],\n  \"model_type\": \"%s\"",
	    f->architecture, f->model_type);
	keys_write(f->keys, f->num_keys, c, "  ", out);
	if (f->write_rest)
		f->write_rest(c, out);
	/* null, not absent: readers would use the family's default for a missing member. */
	family_write_ids(c, true, out);
	keys_write(family_shared, family_num_shared, c, "  ", out);
	str_addf(out, ",\n  \"tie_word_embeddings\": %s,\n  \"use_cache\": true",
	    c->untie_embeddings_and_output_weights ? "false" : "true");
	str_addf(out, ",\n  \"dtype\": \"%s\",\n  \"torch_dtype\": \"%s\"\n}\n", torch_dtype,
	    torch_dtype);
}

/* The first of the differences between a model and what its config.json says, as the reason. */
static void
differs(const struct family *f, const struct str *differences, struct err *e)
{
	const char *mine = strchr(differences->buf, '\t') + 1, *said = strchr(mine, '\t') + 1;
	int mine_len = (int)(said - mine - 1), said_len = (int)strcspn(said, "\n");

	if (*mine != '\'')
		err_set(e, "%s needs %.*s", f->model_type, said_len, said);
	else if (*said != '\'')
		err_set(e, "%s has no %.*s", f->model_type, mine_len, mine);
	else
		err_set(e, "%s has %.*s, not %.*s", f->model_type, said_len, said, mine_len, mine);
}

/* The row of a parameter, by its name in a layer; NULL: the family has none. */
static const struct family_name *
find_name(const struct family *f, const char *in_layer)
{
	const struct family_name *n = f->names;

	while (n->hf && strcmp(n->name, in_layer) != 0)
		n++;
	return n->hf ? n : NULL;
}

/*
 * In how many options the config.json that a family would write says something else than the
 * model; the reason is the first of them. INT_MAX when the family refuses what it would write.
 */
static int
distance(const struct family *f, const struct model_config *c, struct err *e)
{
	const struct family *of;
	struct model_config said;
	struct str text = { 0 }, differences = { 0 };
	struct json *j;
	int n = INT_MAX;

	family_write_config(f, c, "float32", &text);
	j = json_parse(text.buf, text.len, f->model_type, e);
	if (j && read_members(&said, json_root(j), &of, e) == 0) {
		n = 0;
		/* family_place makes halves of pairs, and not the reverse */
		if (!f->interleaved)
			said.rotary_interleaved = c->rotary_interleaved;
		/* nor are layers read that predict later tokens, unless they are asked for */
		if (find_name(f, "eh_proj.weight"))
			said.mtp_num_layers = c->mtp_num_layers;
		model_weight_differences(c, &said, &differences);
		for (size_t i = 0; i < differences.len; i++)
			n += differences.buf[i] == '\n';
		if (n > 0)
			differs(f, &differences, e);
	}
	json_free(j);
	str_release(&text);
	str_release(&differences);
	return n;
}

/*
 * So no family has to list what it lacks, and a new field of models is refused by all families but
 * those that read and write it.
 */
int
family_check(const struct family *f, const struct model_config *c, struct err *e)
{
	return distance(f, c, e) == 0 ? 0 : -1;
}

/* If several families fit, the first one in the registry wins. */
const struct family *
family_of(const struct model_config *c, struct err *e)
{
	int least = INT_MAX;
	struct err why, nearest = { "" };

	for (int i = 0; families[i]; i++) {
		int n = distance(families[i], c, &why);

		if (n == 0)
			return families[i];
		if (n < least || i == 0)
			nearest = why;
		least = n < least ? n : least;
	}
	err_set(e, "no Hugging Face family has this model; the nearest: %s", nearest.msg);
	return NULL;
}

/* For GPT-2's Conv1D, which stores [in, out]: transposes place and slice together. */
static void
transpose(struct family_place *out)
{
	int64_t s = out->shape[0], a = out->slice.start[0], n = out->slice.count[0];

	out->shape[0] = out->shape[1];
	out->shape[1] = s;
	out->slice.start[0] = out->slice.start[1];
	out->slice.start[1] = a;
	out->slice.count[0] = out->slice.count[1];
	out->slice.count[1] = n;
	out->dim[0] = 1;
	out->dim[1] = 0;
}

/* From [channels, taps]. */
static void
part_taps(struct family_place *out)
{
	out->shape[2] = out->shape[1];
	out->slice.count[2] = out->slice.count[1];
	out->shape[1] = out->slice.count[1] = 1;
	out->ndim = out->slice.ndim = 3;
	out->dim[1] = 2;
}

/* How many heads take turns. */
static int64_t
turns_of(enum family_turns turns, const struct model_config *c)
{
	return turns == TURNS_HEADS ? c->num_attention_heads : c->linear_num_key_heads;
}

/* From a tensor of one expert to that of all experts of the layer. */
static void
stack(struct family_place *out, int64_t experts, int64_t expert)
{
	for (int d = out->ndim++; d > 0; d--) {
		out->shape[d] = out->shape[d - 1];
		out->slice.start[d] = out->slice.start[d - 1];
		out->slice.count[d] = out->slice.count[d - 1];
	}
	out->shape[0] = experts;
	out->dim[0]++;
	out->dim[1]++;
	out->slice.ndim = out->ndim;
	out->slice.start[0] = expert;
	out->slice.count[0] = 1;
}

/* Queries and keys of a model with interleaved pairs: to most families they are those of halves. */
static void
place_pairs(const struct family *f, const struct model_config *c, const struct param *p,
    struct family_place *out)
{
	bool turned = c->rotary_interleaved && !f->interleaved;
	static const char *const names[] = { "self_attention.linear_q.weight",
		"self_attention.linear_k.weight", "self_attention.linear_q.bias",
		"self_attention.linear_k.bias", "self_attention.q_layernorm.weight",
		"self_attention.k_layernorm.weight", "self_attention.q_layernorm.bias",
		"self_attention.k_layernorm.bias" };

	for (size_t i = 0; turned && i < sizeof names / sizeof *names; i++)
		if (param_is(p, names[i])) {
			out->head = c->kv_channels;
			out->rotary = model_rotary_dim(c);
		}
}

int64_t
family_stored_row(const struct family_place *place, int64_t row)
{
	int64_t at = place->rotary ? row % place->head : 0;

	if (at >= place->rotary)
		return row;
	return row - at + at % 2 * (place->rotary / 2) + at / 2;
}

int64_t
family_row_of(const struct family_place *place, int64_t stored)
{
	int64_t at = place->rotary ? stored % place->head : 0, half = place->rotary / 2;

	if (at >= place->rotary)
		return stored;
	return stored - at + at % half * 2 + at / half;
}

/*
 * Rows that name the same tensor are its blocks of output rows in table order, so the start is the
 * sum of the rows before and the height the sum of all. Where heads take turns, one run of rows
 * becomes as many as there are heads, and where rows do, as many as there are rows. Transposed
 * last, when all is known.
 */
int
family_place(const struct family *f, const struct model_config *c, const struct param *p,
    struct family_place *out, struct err *e)
{
	const struct family_name *mine = find_name(f, p->in_layer);
	const char *mark;
	int64_t before = 0, others = 0; /* rows of others that the tensor has */
	int turn = 0, turns = 1; /* where they take turns: the parameter's, and of how many */

	if (!mine)
		return err_set(e, "%s has no name for '%s'", f->model_type, p->name);
	memset(out, 0, sizeof *out);
	param_name(mine->hf, (const int[2]){ p->layer - (p->layer > c->num_layers), p->expert },
	    out->name, sizeof out->name);
	out->ndim = p->ndim;
	memcpy(out->shape, p->shape, sizeof out->shape);
	out->slice = slice_whole(p->ndim, p->shape);
	for (const struct family_name *n = f->names; n->hf; n++)
		if (n != mine && !strcmp(n->hf, mine->hf)) {
			others += param_rows(c, n->name);
			before += n < mine ? param_rows(c, n->name) : 0;
			turn += n < mine;
			turns++;
		}
	out->shape[0] += others;
	out->slice.start[0] = before;
	out->runs = 1;
	out->dim[1] = 1;
	if (mine->turns == TURNS_ROWS) {
		out->runs = p->shape[0];
		out->apart = turns;
		out->slice.start[0] = turn;
		out->slice.count[0] = 1;
	}
	if (mine->turns > TURNS_ROWS) {
		out->runs = turns_of(mine->turns, c);
		out->apart = out->shape[0] / out->runs;
		out->slice.start[0] /= out->runs;
		out->slice.count[0] /= out->runs;
	}
	place_pairs(f, c, p, out);
	out->transposed = mine->transposed && p->ndim == 2;
	if (out->transposed)
		transpose(out);
	if (mine->filters)
		part_taps(out);
	mark = strstr(mine->hf, "%d");
	if (p->expert >= 0 && !(mark && strstr(mark + 2, "%d")))
		stack(out, c->num_experts, p->expert);
	return 0;
}

struct slice
family_stored_slice(const struct family_place *place, const struct slice *of)
{
	int rows = place->dim[0];
	int64_t height = place->slice.count[rows],
		run = place->runs > 1 ? of->start[0] / height : 0;
	struct slice slice = place->slice;

	for (int d = 0; d < of->ndim; d++) {
		slice.start[place->dim[d]] += of->start[d];
		slice.count[place->dim[d]] = of->count[d];
	}
	slice.start[rows] += run * (place->apart - height);
	return slice;
}
