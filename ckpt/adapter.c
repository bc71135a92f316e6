/* adapter.c - an adapter of PEFT: its config, and what it does to the tensors of a model */
#include "ckpt/adapter.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/ckpt/hf_bin.h"
#include "lib/ckpt/safetensors.h"
#include "lib/token/regex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t config_max = (size_t)1 << 26;

struct adapter {
	char path[IO_PATH]; /* of the file of tensors */
	struct json *config;
	struct safetensors *tensors;
	struct hf_bin *bin;
	int num_tensors, count;
	struct adapter_change *change;
	bool rslora;
	uint64_t hash;
};

/* --- the config ------------------------------------------------------------------------------- */

/* Members that say nothing of the merged model, or that are read here. */
static const char *const known[] = { "peft_type", "task_type", "auto_mapping", "peft_version",
	"base_model_name_or_path", "revision", "inference_mode", "r", "target_modules",
	"exclude_modules", "lora_alpha", "lora_dropout", "fan_in_fan_out", "bias", "use_rslora",
	"modules_to_save", "init_lora_weights", "layers_to_transform", "layers_pattern",
	"rank_pattern", "alpha_pattern", "megatron_core", "loftq_config", "eva_config",
	"corda_config", "runtime_config", "qalora_group_size", "ensure_weight_tying", NULL };

static bool
is_known(const char *key)
{
	for (int i = 0; known[i]; i++)
		if (!strcmp(key, known[i]))
			return true;
	return false;
}

/* Null, false, 0 or empty. */
static bool
is_off(const struct json_value *v)
{
	switch (v->type) {
	case JSON_NULL: return true;
	case JSON_BOOL: return !v->boolean;
	case JSON_INT:
	case JSON_FLOAT: return json_number(v) == 0;
	default: return v->len == 0;
	}
}

/* Initialisations that take from the base what they give the adapter. */
static int
check_init(const struct json_value *root, const char *path, struct err *e)
{
	static const char *const changing[] = { "pissa", "olora", "corda", "loftq", "lora_ga",
		NULL };
	const struct json_value *v = json_get(root, "init_lora_weights");

	for (int i = 0; v && v->type == JSON_STRING && changing[i]; i++)
		if (!strncmp(v->string, changing[i], strlen(changing[i])))
			return err_at(e, path, 0,
			    "\"init_lora_weights\": \"%s\" has changed the base: with "
			    "--base-is-residual it is taken for the changed one",
			    v->string);
	return 0;
}

static int
check_config(
    const struct json_value *root, const char *path, const struct adapter_rule *r, struct err *e)
{
	const char *type;

	if (root->type != JSON_OBJECT)
		return err_at(e, path, 0, "not a JSON object");
	if (json_string(root, "peft_type", "", &type, e) < 0)
		return -1;
	if (strcmp(type, "LORA"))
		return err_at(e, path, 0, "\"peft_type\" is \"%s\": only LORA is merged", type);
	for (size_t i = 0; i < root->len; i++)
		if (!is_known(root->item[i].key) && !is_off(&root->item[i]))
			return err_at(e, path, 0,
			    "\"%s\": such an adapter is not merged: the result would not be the "
			    "model that it makes",
			    root->item[i].key);
	return r->base_is_residual ? 0 : check_init(root, path, e);
}

/* --- scales ----------------------------------------------------------------------------------- */

/* Whether a key matches the whole name of a module, or a trailing part of it after a point. */
static int
key_matches(const char *key, const char *module, struct err *e)
{
	struct str pattern = { 0 };
	struct regex *regex;
	struct regex_scratch *scratch;
	struct regex_walk walk = { .s = module, .n = strlen(module) };
	int rc;

	str_addf(&pattern, "^(.*\\.)?(%s)$", key);
	regex = regex_new(pattern.buf, pattern.len, e);
	str_release(&pattern);
	if (!regex)
		return -1;
	scratch = regex_scratch_new();
	rc = regex_next(regex, scratch, &walk, e);
	regex_scratch_free(scratch);
	regex_free(regex);
	return rc;
}

/* The number that the first matching key of a dictionary gives a module, or the common one. */
static int
number_of(const struct json_value *root, const char *patterns, const char *common,
    const char *module, double *out)
{
	const struct json_value *dict = json_get(root, patterns);
	struct err ignored;

	if (json_double(root, common, 8, out, &ignored) < 0)
		return -1;
	for (size_t i = 0; dict && dict->type == JSON_OBJECT && i < dict->len; i++) {
		int rc = key_matches(dict->item[i].key, module, &ignored);

		if (rc < 0)
			return -1;
		if (rc == 0)
			continue;
		if (dict->item[i].type != JSON_INT && dict->item[i].type != JSON_FLOAT)
			return -1;
		*out = json_number(&dict->item[i]);
		return 0;
	}
	return 0;
}

static int
set_scale(const struct adapter *a, const char *module, struct adapter_change *c, struct err *e)
{
	const struct json_value *root = json_root(a->config);
	double r, alpha;

	if (number_of(root, "rank_pattern", "r", module, &r) < 0 ||
	    number_of(root, "alpha_pattern", "lora_alpha", module, &alpha) < 0)
		return err_at(e, a->path, 0, "'%s': no rank and alpha can be read for it", module);
	if (c->a.ndim != 2 || c->b.ndim != 2 || c->a.shape[0] != c->b.shape[1])
		return err_at(e, a->path, 0, "'%s': its two matrices do not have one rank", module);
	if ((double)c->a.shape[0] != r)
		return err_at(e, a->path, 0, "'%s' has rank %lld, but its config says %g", module,
		    (long long)c->a.shape[0], r);
	c->scale = a->rslora ? alpha / sqrt(r) : alpha / r;
	return r >= 1 && isfinite(c->scale)
	    ? 0
	    : err_at(e, a->path, 0, "'%s' has rank %g and alpha %g, which are no factor", module, r,
		  alpha);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* The change of a tensor, which may be new. */
static struct adapter_change *
change_of(struct adapter *a, const char *name)
{
	for (int i = 0; i < a->count; i++)
		if (!strcmp(a->change[i].name, name))
			return &a->change[i];
	a->change = mem_realloc(a->change, (size_t)a->count + 1, sizeof *a->change);
	a->change[a->count] = (struct adapter_change){ .name = mem_strdup(name),
		.a.dtype = DTYPE_NONE,
		.b.dtype = DTYPE_NONE,
		.replacement.dtype = DTYPE_NONE };
	return &a->change[a->count++];
}

/* How the names of tensors end, and what they are of their module's tensor. */
enum role { ROLE_A, ROLE_B, ROLE_EMBEDDING_A, ROLE_EMBEDDING_B, ROLE_REPLACEMENT };
static const struct {
	const char *end, *tensor;
	enum role role;
} ends[] = {
	{ ".lora_A.weight", ".weight", ROLE_A },
	{ ".lora_B.weight", ".weight", ROLE_B },
	{ ".lora_embedding_A", ".weight", ROLE_EMBEDDING_A },
	{ ".lora_embedding_B", ".weight", ROLE_EMBEDDING_B },
	{ ".base_layer.weight", ".weight", ROLE_REPLACEMENT },
	{ ".base_layer.bias", ".bias", ROLE_REPLACEMENT },
	{ ".modules_to_save.weight", ".weight", ROLE_REPLACEMENT },
	{ ".modules_to_save.bias", ".bias", ROLE_REPLACEMENT },
	{ ".weight", ".weight", ROLE_REPLACEMENT },
	{ ".bias", ".bias", ROLE_REPLACEMENT },
};

static int
take(struct adapter *a, const char *name, const struct torch_tensor *t, struct err *e)
{
	static const char prefix[] = "base_model.model.";
	size_t skip = strncmp(name, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1,
	       n = strlen(name), i = 0;
	struct adapter_change *c;
	struct str of = { 0 };

	for (; i < sizeof ends / sizeof *ends; i++) {
		size_t end = strlen(ends[i].end);

		if (n > skip + end && !strcmp(name + n - end, ends[i].end))
			break;
	}
	if (i == sizeof ends / sizeof *ends || strstr(name, "lora_magnitude") ||
	    (ends[i].role == ROLE_REPLACEMENT && strstr(name, ".lora_")))
		return err_at(e, a->path, 0, "tensor '%s': nothing is known to use it", name);
	if (!dtype_is_float(t->dtype))
		return err_at(e, a->path, 0, "tensor '%s' is of no type of weights", name);
	str_add(&of, name + skip, n - skip - strlen(ends[i].end));
	str_adds(&of, ends[i].tensor);
	c = change_of(a, of.buf);
	str_release(&of);
	c->embedding |= ends[i].role == ROLE_EMBEDDING_A || ends[i].role == ROLE_EMBEDDING_B;
	switch (ends[i].role) {
	case ROLE_A:
	case ROLE_EMBEDDING_A: c->a = *t; break;
	case ROLE_B:
	case ROLE_EMBEDDING_B: c->b = *t; break;
	case ROLE_REPLACEMENT: c->replacement = *t; break;
	}
	return 0;
}

static int
take_safetensors(struct adapter *a, struct err *e)
{
	int rc = 0;

	a->num_tensors = safetensors_count(a->tensors);
	for (int i = 0; i < a->num_tensors && rc == 0; i++) {
		const struct safetensors_entry *s = safetensors_at(a->tensors, i);
		struct torch_tensor t;

		if (s->ndim > SLICE_DIMS)
			return err_at(
			    e, a->path, 0, "tensor '%s' has %d dimensions", s->name, s->ndim);
		safetensors_view(s, &t);
		rc = take(a, s->name, &t, e);
	}
	return rc;
}

static int
take_bin(struct adapter *a, struct err *e)
{
	int rc = hf_bin_verify(a->bin, e);

	a->num_tensors = hf_bin_count(a->bin);
	for (int i = 0; i < a->num_tensors && rc == 0; i++) {
		const struct hf_bin_entry *b = hf_bin_at(a->bin, i);

		rc = b->why ? err_at(e, a->path, 0, "tensor '%s' is none: %s", b->name, b->why)
			    : take(a, b->name, &b->tensor, e);
	}
	return rc;
}

/* Both halves of each pair, with its scale. */
static int
check_pairs(struct adapter *a, struct err *e)
{
	for (int i = 0; i < a->count; i++) {
		struct adapter_change *c = &a->change[i];
		bool has_a = c->a.dtype != DTYPE_NONE, has_b = c->b.dtype != DTYPE_NONE;
		char *module;
		int rc;

		if (!has_a && !has_b)
			continue;
		if (!has_a || !has_b)
			return err_at(e, a->path, 0, "'%s' has one of two matrices alone", c->name);
		module = mem_strndup(c->name, strlen(c->name) - strlen(".weight"));
		rc = set_scale(a, module, c, e);
		free(module);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int
open_config(struct adapter *a, const char *dir, const struct adapter_rule *rule, struct err *e)
{
	char path[IO_PATH];

	if (snprintf(path, sizeof path, "%s/adapter_config.json", dir) >= (int)sizeof path)
		return err_set(e, "path too long: '%.60s...'", dir);
	a->config = json_read_regular(path, config_max, e);
	if (!a->config || check_config(json_root(a->config), path, rule, e) < 0)
		return -1;
	return json_bool(json_root(a->config), "use_rslora", false, &a->rslora, e);
}

static int
open_tensors(struct adapter *a, const char *dir, struct err *e)
{
	struct map m;

	if (snprintf(a->path, sizeof a->path, "%s/adapter_model.safetensors", dir) >=
	    (int)sizeof a->path)
		return err_set(e, "path too long: '%.60s...'", dir);
	if (io_exists(a->path)) {
		a->tensors = safetensors_open(a->path, e);
	} else {
		strcpy(strrchr(a->path, '.'), ".bin");
		a->bin = hf_bin_open(a->path, e);
	}
	if ((!a->tensors && !a->bin) || map_open(&m, a->path, e) < 0)
		return -1;
	a->hash = hash_xxh3(m.base, m.size);
	map_close(&m);
	return a->tensors ? take_safetensors(a, e) : take_bin(a, e);
}

struct adapter *
adapter_open(const char *dir, const struct adapter_rule *rule, struct err *e)
{
	struct adapter *a = mem_zalloc(1, sizeof *a);

	if (open_config(a, dir, rule, e) == 0 && open_tensors(a, dir, e) == 0 &&
	    check_pairs(a, e) == 0)
		return a;
	adapter_close(a);
	return NULL;
}

void
adapter_close(struct adapter *a)
{
	if (!a)
		return;
	for (int i = 0; i < a->count; i++)
		free(a->change[i].name);
	free(a->change);
	json_free(a->config);
	safetensors_close(a->tensors);
	hf_bin_close(a->bin);
	free(a);
}

int
adapter_count(const struct adapter *a)
{
	return a->count;
}

struct adapter_change *
adapter_at(struct adapter *a, int i)
{
	return &a->change[i];
}

/* Names of a base model lack the part before the first point, as "model.". */
struct adapter_change *
adapter_find(struct adapter *a, const char *name)
{
	const char *point = strchr(name, '.');

	for (int i = 0; i < a->count; i++)
		if (!strcmp(a->change[i].name, name) ||
		    (point && !strcmp(a->change[i].name, point + 1)))
			return &a->change[i];
	return NULL;
}

int
adapter_num_tensors(const struct adapter *a)
{
	return a->num_tensors;
}

uint64_t
adapter_hash(const struct adapter *a)
{
	return a->hash;
}
