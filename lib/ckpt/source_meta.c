/*
 * source_meta.c - a model in the form of Meta and Mistral as a source
 *
 *   params.json          sizes and rates; what it does not say, the shapes tell or a config.json
 *   consolidated...      meta_dir.h
 *
 * The rows of q and k are pairs that rotate together, in each head [d/2, 2]; ours are two halves,
 * [2, d/2]. Files of several ranks hold parts of each tensor along one dimension, which the shapes
 * tell: of the table of tokens columns in Llama 1 and 2, rows in Llama 3. Source:
 * meta-llama/llama-models, mistralai/mistral-inference; convert_llama_weights_to_hf.py and
 * convert_mistral_weights_to_hf.py of huggingface/transformers.
 */
#include "lib/base/hash.h"
#include "lib/base/hub.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/hf_front.h"
#include "lib/ckpt/meta_dir.h"
#include "lib/ckpt/source.h"
#include "lib/model/family.h"

#include <stdlib.h>
#include <string.h>

struct meta_source {
	struct source s;
	struct meta_dir dir;
	struct family family; /* with the names of the files */
	const char *said_by;  /* "params.json", for messages */
	bool has_images;
};

static const struct family_name names[] = {
	{ "embedding.word_embeddings.weight", "tok_embeddings.weight", false },
	{ "decoder.final_layernorm.weight", "norm.weight", false },
	{ "output_layer.weight", "output.weight", false },
	{ "input_layernorm.weight", "layers.%d.attention_norm.weight", false },
	{ "pre_mlp_layernorm.weight", "layers.%d.ffn_norm.weight", false },
	{ "self_attention.linear_q.weight", "layers.%d.attention.wq.weight", false },
	{ "self_attention.linear_k.weight", "layers.%d.attention.wk.weight", false },
	{ "self_attention.linear_v.weight", "layers.%d.attention.wv.weight", false },
	{ "self_attention.linear_proj.weight", "layers.%d.attention.wo.weight", false },
	{ "mlp.linear_gate.weight", "layers.%d.feed_forward.w1.weight", false },
	{ "mlp.linear_down.weight", "layers.%d.feed_forward.w2.weight", false },
	{ "mlp.linear_up.weight", "layers.%d.feed_forward.w3.weight", false }, { NULL, NULL, false }
};

static const char initial_state[] = "iteration 0\nconsumed_train_samples 0\noptimizer_steps 0\n"
				    "skipped_iterations 0\n";

static struct meta_source *
meta_of(const struct source *s)
{
	return (struct meta_source *)s;
}

static bool
is_meta(const char *path)
{
	char dir[IO_PATH];
	struct err why;

	return hub_snapshot(path, dir, &why) == 0 && meta_dir_is(dir) && !hf_front_has_weights(dir);
}

/* --- the model -------------------------------------------------------------------------------- */

/* Members that change nothing, are read, or are of training. */
static const char *const known[] = { "dim", "n_layers", "head_dim", "hidden_dim", "n_heads",
	"n_kv_heads", "norm_eps", "rope_theta", "vocab_size", "multiple_of", "ffn_dim_multiplier",
	"max_seq_len", "max_batch_size", "use_scaled_rope", "sliding_window", "tied_embeddings",
	"use_biases", "model_type", "vision_encoder", "causal", "max_position_embeddings", NULL };

/* Members that make it another model. */
static const char *const other[] = { "moe", "yarn", "quantization", "quantization_args",
	"lora_args", "q_lora_rank", "kv_lora_rank", "llama_4_scaling", "use_biases", NULL };

static bool
has_word(const char *const *list, const char *word)
{
	while (*list && strcmp(*list, word))
		list++;
	return *list;
}

/* What the model cannot be read with, and what nobody reads. */
static int
check_members(struct meta_source *m, const struct json_value *p, const char *file, struct err *e)
{
	struct str unread = { 0 };

	for (size_t i = 0; i < p->len; i++) {
		const struct json_value *v = &p->item[i];

		if (has_word(other, v->key) && !family_is_off(v)) {
			str_release(&unread);
			return err_at(e, file, 0, "\"%s\" is set, which is not supported", v->key);
		}
		if (!has_word(known, v->key) && !has_word(other, v->key))
			str_addf(&unread, "%s%s", unread.len ? ", " : "", v->key);
	}
	if (unread.len)
		str_addf(&m->s.notes, "%s: not read: %s\n", file, unread.buf);
	str_release(&unread);
	if (!family_is_off(json_get(p, "use_scaled_rope")))
		return err_at(e, file, 0,
		    "\"use_scaled_rope\" does not say the scaling's factor; mckpt import --model "
		    "config.json says the model instead");
	return 0;
}

/* Rows of a tensor over all ranks; 0: there is none. */
static int64_t
rows_of(const struct meta_source *m, const char *name)
{
	const struct meta_tensor *t = meta_dir_find(&m->dir, 0, name);

	return t && t->x.ndim == 2 && t->x.shape[0] <= INT32_MAX ? t->x.shape[0] * m->dir.num_ranks
								 : 0;
}

/* Appends a member of config.json, whose value a member of params.json has or else `def`. */
static int
add_member(const struct json_value *p, const char *from, int64_t def, const char *name,
    struct str *out, struct err *e)
{
	int64_t x = def;

	if (!family_is_off(json_get(p, from)) && json_int(p, from, def, &x, e) < 0)
		return -1;
	str_addf(out, ", \"%s\": %lld", name, (long long)x);
	return 0;
}

/* The config.json of the same model. Where params.json does not say a width, the shapes do. */
static int
write_config(
    const struct meta_source *m, const struct json_value *p, struct str *out, struct err *e)
{
	bool mistral = !family_is_off(json_get(p, "sliding_window"));
	int64_t heads, tokens, dim;
	double theta, epsilon;

	if (json_int(p, "n_heads", 0, &heads, e) < 0 || json_int(p, "dim", 0, &dim, e) < 0 ||
	    json_int(p, "vocab_size", -1, &tokens, e) < 0 ||
	    json_double(p, "rope_theta", 1e4, &theta, e) < 0 ||
	    json_double(p, "norm_eps", 1e-5, &epsilon, e) < 0)
		return -1;
	if (heads < 1 || dim < 1)
		return err_set(e, "\"%s\" is missing", heads < 1 ? "n_heads" : "dim");
	if (tokens < 1)
		tokens = rows_of(
		    m, rows_of(m, "output.weight") ? "output.weight" : "tok_embeddings.weight");
	str_addf(out,
	    "{\"model_type\": \"%s\", \"hidden_size\": %lld, \"num_attention_heads\": %lld, "
	    "\"vocab_size\": %lld, \"rope_theta\": %.17g, \"rms_norm_eps\": %.17g, "
	    "\"tie_word_embeddings\": %s",
	    mistral ? "mistral" : "llama", (long long)dim, (long long)heads, (long long)tokens,
	    theta, epsilon, rows_of(m, "output.weight") ? "false" : "true");
	if (add_member(p, "n_layers", 0, "num_hidden_layers", out, e) < 0 ||
	    add_member(p, "n_kv_heads", heads, "num_key_value_heads", out, e) < 0 ||
	    add_member(p, "head_dim", dim / heads, "head_dim", out, e) < 0 ||
	    add_member(p, "hidden_dim", rows_of(m, "layers.0.feed_forward.w1.weight"),
		"intermediate_size", out, e) < 0 ||
	    add_member(p, "max_seq_len", 2048, "max_position_embeddings", out, e) < 0 ||
	    (mistral && add_member(p, "sliding_window", 0, "sliding_window", out, e) < 0))
		return -1;
	str_adds(out, "}");
	return 0;
}

static struct json *
open_params(const struct meta_source *m, char file[CKPT_PATH_BYTES], struct err *e)
{
	if (!ckpt_join(file, m->s.path, "params.json")) {
		err_set(e, "path too long: '%.60s...'", m->s.path);
		return NULL;
	}
	if (!io_exists(file)) {
		err_at(e, m->s.path, 0,
		    "holds consolidated files in the form of Meta or Mistral, but no params.json: "
		    "mckpt import --model config.json says the model instead");
		return NULL;
	}
	return hub_check_pointer(file, e) == 0 ? json_read_python(file, 1 << 20, e) : NULL;
}

/* The model of params.json. */
static const struct family *
read_params(struct meta_source *m, struct err *e)
{
	char file[CKPT_PATH_BYTES];
	struct json *j = open_params(m, file, e);
	const struct json_value *p = j ? json_root(j) : NULL;
	const struct family *f = NULL;
	struct str config = { 0 };
	struct err why;

	if (!p)
		return NULL;
	m->said_by = "params.json";
	m->has_images = !family_is_off(json_get(p, "vision_encoder"));
	if (p->type != JSON_OBJECT)
		err_at(e, file, 0, "not a JSON object");
	else if (check_members(m, p, file, e) == 0) {
		if (write_config(m, p, &config, &why) < 0)
			err_at(e, file, 0, "%s", why.msg);
		else
			f = family_parse_config(config.buf, file, &m->s.config, e);
	}
	str_release(&config);
	json_free(j);
	return f;
}

/* The model of a config.json in its place, whose family must be one that has this form. */
static const struct family *
read_model(struct meta_source *m, const char *model, struct err *e)
{
	const struct family *f = family_read_config(model, &m->s.config, NULL, e);

	m->said_by = "config.json";
	m->has_images = true;
	if (!f || f == family_find("llama") || f == family_find("mistral"))
		return f;
	err_at(e, model, 0,
	    "is of the family %s; those of Meta's and Mistral's files are llama and "
	    "mistral",
	    f->model_type);
	return NULL;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Whether a tensor has this shape, but for dimension d, of which it has one part in n. */
static bool
has_part(const struct torch_tensor *x, const struct family_place *p, int d, int64_t n)
{
	bool fits = dtype_is_float(x->dtype) && x->ndim == p->ndim;

	for (int k = 0; fits && k < p->ndim; k++)
		fits = k == d ? x->shape[k] <= INT64_MAX / n && x->shape[k] * n == p->shape[k]
			      : x->shape[k] == p->shape[k];
	return fits;
}

/* The dimension that the ranks share of a parameter, or -1 where each has all of it. False when
 * the files have it in no such form. */
static bool
find_cut(const struct meta_source *m, const struct family_place *p, int *cut)
{
	int n = m->dir.num_ranks;

	for (*cut = -1; *cut < p->ndim; ++*cut) {
		bool all = n > 1 || *cut < 0;
		enum dtype dtype = DTYPE_NONE;

		for (int r = 0; all && r < n; r++) {
			const struct meta_tensor *t = meta_dir_find(&m->dir, r, p->name);

			all = t && has_part(&t->x, p, *cut, n) && (r == 0 || t->x.dtype == dtype);
			dtype = t ? t->x.dtype : dtype;
		}
		if (all)
			return true;
	}
	return false;
}

static bool
place_of(const struct meta_source *m, const struct param *p, struct family_place *out, int *cut)
{
	return family_place(&m->family, &m->s.config, p, out, NULL) == 0 && find_cut(m, out, cut);
}

/* Why a parameter cannot be read. */
static void
explain(struct meta_source *m, const struct family_place *p)
{
	struct str why = { 0 };
	int n = m->dir.num_ranks;

	for (int r = 0; r < n && !why.len; r++) {
		const struct meta_tensor *t = meta_dir_find(&m->dir, r, p->name);

		if (!t && n > 1)
			str_addf(&why, "is missing in file %d", r);
		else if (!t)
			str_adds(&why, "is missing");
		else if (t->why)
			str_addf(&why, "is none: %s", t->why);
		else if (!dtype_is_float(t->x.dtype))
			str_adds(&why, "is not F64, F32, BF16 or F16");
		else if (r == n - 1) {
			str_adds(&why, "has shape ");
			source_print_shape(&why, t->x.ndim, t->x.shape);
			str_addf(&why, "%s, %s needs ", n > 1 ? " in each file" : "", m->said_by);
			source_print_shape(&why, p->ndim, p->shape);
		}
	}
	source_problem(&m->s, "tensor '%s' %s", p->name, why.buf);
	str_release(&why);
}

/* Whether the ranks' parts of the output table are those of the table of tokens, byte for byte. */
static bool
is_tied_copy(const struct meta_source *m, const char *name)
{
	if (strcmp(name, "output.weight") || m->s.config.untie_embeddings_and_output_weights)
		return false;
	for (int r = 0; r < m->dir.num_ranks; r++) {
		const struct meta_tensor *a = meta_dir_find(&m->dir, r, "tok_embeddings.weight"),
					 *b = meta_dir_find(&m->dir, r, name);

		if (!a || !b || !dtype_is_float(a->x.dtype) || a->x.dtype != b->x.dtype ||
		    a->x.ndim != b->x.ndim || !torch_tensor_is_dense(&a->x) ||
		    !torch_tensor_is_dense(&b->x) ||
		    memcmp(a->x.shape, b->x.shape, sizeof a->x.shape) ||
		    memcmp(a->x.data, b->x.data,
			(size_t)torch_tensor_elements(&a->x) * dtype_size(a->x.dtype)))
			return false;
	}
	return true;
}

/* What no parameter uses. */
static void
check_unused(struct meta_source *m, const char *const *used, int num_used)
{
	static const char *const images[] = { "vision_encoder.", "vision_language_adapter.",
		"patch_merger.", "pre_mm_projector_norm." };
	int passed = 0;

	for (int i = 0; i < m->dir.rank[0].count; i++) {
		const char *name = m->dir.rank[0].tensor[i].name;
		bool is_used = !strcmp(name, "rope.freqs") || is_tied_copy(m, name);
		bool is_image = false;

		for (int k = 0; !is_used && k < num_used; k++)
			is_used = !strcmp(used[k], name);
		for (int k = 0; k < 4; k++)
			is_image |= m->has_images && !strncmp(name, images[k], strlen(images[k]));
		passed += is_image;
		if (!is_used && !is_image)
			source_problem(&m->s, "tensor '%s' does not belong to the model of %s",
			    name, m->said_by);
	}
	if (passed)
		str_addf(
		    &m->s.notes, "%s: not read: %d tensors are of images\n", m->s.path, passed);
}

static void
check(struct meta_source *m)
{
	struct mem_pool pool = { 0 };
	const char **used = mem_zalloc((size_t)m->s.count + 1, sizeof *used);
	struct family_place p;
	struct err why;
	int cut, n = 0;

	for (int i = 0; i < m->s.count; i++) {
		if (family_place(&m->family, &m->s.config, &m->s.param[i], &p, &why) < 0) {
			source_problem(&m->s, "%s", why.msg);
			continue;
		}
		if (!find_cut(m, &p, &cut))
			explain(m, &p);
		used[n++] = mem_pool_strndup(&pool, p.name, strlen(p.name));
	}
	check_unused(m, used, n);
	free(used);
	mem_pool_release(&pool);
}

/* --- opening ---------------------------------------------------------------------------------- */

static struct source *
open_as(const char *path, const char *model, struct err *e)
{
	struct source *s = source_new(&source_meta, sizeof(struct meta_source), path);
	struct meta_source *m = meta_of(s);
	const struct family *f = NULL;

	if (hub_snapshot(path, s->path, e) == 0 && meta_dir_open(&m->dir, s->path, e) == 0)
		f = model ? read_model(m, model, e) : read_params(m, e);
	if (!f) {
		source_close(s);
		return NULL;
	}
	m->family = *f;
	m->family.names = names;
	str_adds(&s->state_text, initial_state);
	source_set_model(s);
	for (int r = 0; r < m->dir.num_ranks; r++)
		s->num_tensors += m->dir.rank[r].count;
	s->num_files = m->dir.num_files;
	s->layout.tensor_model_parallel_size = m->dir.num_ranks;
	check(m);
	return s;
}

static struct source *
open_meta(const char *path, struct err *e)
{
	return open_as(path, NULL, e);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* What every rank has is there as often as there are ranks. */
static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	const struct meta_source *m = meta_of(s);
	struct family_place place;
	int cut, n = m->dir.num_ranks;

	if (p->state || p->copy >= n || !place_of(m, p->param, &place, &cut) ||
	    (cut >= 0 && p->copy))
		return false;
	*out = (struct source_stored){ .dtype = meta_dir_find(&m->dir, 0, place.name)->x.dtype,
		.copies = cut < 0 ? n : 1,
		.pieces = cut < 0 ? 1 : n };
	return true;
}

/* Where a parameter is read from. */
struct reading {
	const struct meta_source *m;
	struct family_place place;
	int cut, copy;
	size_t size;
};

/* A box in the order of the files, from the ranks that have parts of it. */
static int
read_stored(const struct reading *r, const struct slice *box, void *dst, struct err *e)
{
	for (int rank = 0; rank < (r->cut < 0 ? 1 : r->m->dir.num_ranks); rank++) {
		const struct meta_tensor *t =
		    meta_dir_find(&r->m->dir, r->cut < 0 ? r->copy : rank, r->place.name);
		struct slice mine = slice_whole(t->x.ndim, t->x.shape), part, local;
		void *bytes = NULL;

		if (r->cut >= 0)
			mine.start[r->cut] = rank * mine.count[r->cut];
		if (!slice_intersect(box, &mine, &part))
			continue;
		if (torch_tensor_check(&t->x, e) < 0)
			return -1;
		local = part;
		if (r->cut >= 0)
			local.start[r->cut] -= mine.start[r->cut];
		if (slice_elements(&part) < slice_elements(box))
			bytes = mem_alloc((size_t)slice_elements(&part), r->size);
		torch_tensor_read(&t->x, &local, bytes ? bytes : dst);
		if (bytes)
			slice_copy(dst, box, bytes, &part, &part, r->size);
		free(bytes);
	}
	return 0;
}

/* Gives back the pages of the rows of a box, and of those of their heads. */
static void
forget(const struct reading *r, int64_t first, int64_t rows)
{
	for (int rank = 0; rank < r->m->dir.num_ranks; rank++) {
		const struct torch_tensor *x = &meta_dir_find(&r->m->dir, rank, r->place.name)->x;
		int64_t start = r->cut == 0 ? rank * x->shape[0] : 0, end = first + rows;

		end = end - start < x->shape[0] ? end - start : x->shape[0];
		start = first > start ? first - start : 0;
		if (start < end && x->ndim && torch_tensor_is_dense(x))
			map_forget_part(x->data + (size_t)(start * x->stride[0]) * r->size,
			    (uint64_t)((end - start) * x->stride[0]) * r->size);
	}
}

/* Our row of q or k is this one of the file. */
static int64_t
paired_row(int64_t row, int64_t width)
{
	int64_t at = row % width, half = width / 2;

	return row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
}

static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct reading r = { .m = meta_of(s), .copy = p->copy };
	bool paired = param_is(p->param, "self_attention.linear_q.weight") ||
	    param_is(p->param, "self_attention.linear_k.weight");
	int64_t width = s->config.kv_channels, rows = p->slice.count[0], first = p->slice.start[0];
	struct slice row = p->slice;
	struct err why;
	int rc = 0;

	place_of(r.m, p->param, &r.place, &r.cut);
	r.size = dtype_size(meta_dir_find(&r.m->dir, 0, r.place.name)->x.dtype);
	if (!paired)
		rc = read_stored(&r, &p->slice, dst, &why);
	row.count[0] = 1;
	for (int64_t i = 0; paired && rc == 0 && i < rows; i++) {
		row.start[0] = paired_row(first + i, width);
		rc = read_stored(
		    &r, &row, (char *)dst + (size_t)(i * slice_elements(&row)) * r.size, &why);
	}
	if (rc < 0) {
		s->damaged = true;
		return err_at(e, s->path, 0, "%s", why.msg);
	}
	forget(&r, paired ? first - first % width : first, paired ? rows + width : rows);
	return 0;
}

/* Of names, types, shapes and the first elements. */
static uint64_t
header_hash(const struct source *s)
{
	const struct meta_source *m = meta_of(s);
	struct hash_stream *h = hash_stream_new();

	hash_stream_add(h, s->options.buf, s->options.len);
	for (int r = 0; r < m->dir.num_ranks; r++)
		for (int i = 0; i < m->dir.rank[r].count; i++) {
			const struct meta_tensor *t = &m->dir.rank[r].tensor[i];

			hash_stream_add(h, t->name, strlen(t->name) + 1);
			hash_stream_add(h, t->x.shape, (size_t)t->x.ndim * sizeof *t->x.shape);
			if (dtype_is_float(t->x.dtype) && torch_tensor_elements(&t->x) > 0)
				hash_stream_add(h, t->x.data, dtype_size(t->x.dtype));
		}
	return hash_stream_free(h);
}

static int
verify(struct source *s, struct str *problems)
{
	return meta_dir_verify(&meta_of(s)->dir, problems);
}

static void
release(struct source *s)
{
	meta_dir_close(&meta_of(s)->dir);
}

const struct source_kind source_meta = {
	.name = "directory of Meta's or Mistral's form",
	.is = is_meta,
	.open = open_meta,
	.open_as = open_as,
	.find = find_part,
	.read = read_part,
	.verify = verify,
	.hash = header_hash,
	.close = release,
};
