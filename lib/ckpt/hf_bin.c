/* hf_bin.c - a file of torch.save that holds the tensors of a model by name */
#include "lib/base/mem.h"
#include "lib/ckpt/hf_bin.h"

#include <stdlib.h>
#include <string.h>

struct hf_bin {
	struct map map;
	struct torchzip *zip;
	int count;
	struct hf_bin_entry *entry;
	struct mem_pool pool; /* reasons */
};

/* Whether a value is a dict with a tensor. */
static bool
has_tensors(const struct pickle_value *v)
{
	for (uint32_t i = 0; v && v->type == PICKLE_DICT && i < v->len; i++)
		if (torch_is_tensor(v->pair[i].value))
			return true;
	return false;
}

/* The dict of tensors, which trainers wrap. */
static const struct pickle_value *
find_dict(const struct pickle_value *root)
{
	static const char *const wraps[] = { "state_dict", "model" };

	for (int i = 0; i < 2 && !has_tensors(root); i++)
		if (has_tensors(pickle_get(root, wraps[i])))
			return pickle_get(root, wraps[i]);
	return root;
}

static int
read_entries(struct hf_bin *b, struct err *e)
{
	const struct pickle_value *dict = find_dict(torchzip_root(b->zip));

	if (!dict || dict->type != PICKLE_DICT || !has_tensors(dict))
		return err_set(e, "holds no dict of tensors");
	b->entry = mem_zalloc(dict->len, sizeof *b->entry);
	for (uint32_t i = 0; i < dict->len; i++) {
		struct hf_bin_entry *t = &b->entry[b->count];
		struct err why;

		t->name = pickle_string(dict->pair[i].key);
		if (!t->name)
			continue;
		if (torchzip_tensor(b->zip, dict->pair[i].value, &t->tensor, &why) < 0) {
			t->tensor = (struct torch_tensor){ .dtype = DTYPE_NONE };
			t->why = mem_pool_strndup(&b->pool, why.msg, strlen(why.msg));
		}
		b->count++;
	}
	return 0;
}

static int
open_file(struct hf_bin *b, const char *path, struct err *e)
{
	struct err why;

	if (map_open(&b->map, path, e) < 0)
		return -1;
	b->zip = torchzip_open(b->map.base, b->map.size, path, e);
	if (!b->zip)
		return -1;
	if (torchzip_check_root(b->zip, &why) == 0 && read_entries(b, &why) == 0)
		return 0;
	return err_at(e, path, 0, "%s", why.msg);
}

struct hf_bin *
hf_bin_open(const char *path, struct err *e)
{
	struct hf_bin *b = mem_zalloc(1, sizeof *b);

	if (open_file(b, path, e) == 0)
		return b;
	hf_bin_close(b);
	return NULL;
}

int
hf_bin_count(const struct hf_bin *b)
{
	return b->count;
}

const struct hf_bin_entry *
hf_bin_at(const struct hf_bin *b, int i)
{
	return &b->entry[i];
}

int
hf_bin_verify(const struct hf_bin *b, struct err *e)
{
	return torchzip_verify(b->zip, &b->map, e);
}

/* NULL is ignored. */
void
hf_bin_close(struct hf_bin *b)
{
	if (!b)
		return;
	torchzip_close(b->zip);
	map_close(&b->map);
	free(b->entry);
	mem_pool_release(&b->pool);
	free(b);
}
