/* layout_text.c - layout and split as lines of options */
#include "lib/model/layout_text.h"

#include <string.h>

struct holder {
	struct layout l;
	struct split_options split;
};

static const struct opt rows[] = { LAYOUT_OPTS(struct holder, l), SPLIT_OPTS(struct holder, split),
	{ .type = OPT_END_TYPE } };

/* Comments and other options keep their order; the sizes are appended. */
void
layout_replace(
    const char *text, const struct layout *l, const struct split_options *split, struct str *out)
{
	const struct holder h = { *l, *split };

	opt_text_without(rows, text, out);
	for (const struct opt *r = rows; r->type != OPT_END_TYPE; r++)
		/* a size below its range has not been typed */
		if (r->type != OPT_INT ||
		    *(const int64_t *)((const char *)&h + r->off) >= (int64_t)r->min)
			opt_dump_row(r, &h, out);
}

void
layout_words(const struct layout *l, struct str *out)
{
	str_addf(out, "tensor %lld, ", (long long)l->tensor_model_parallel_size);
	if (l->context_parallel_size > 1)
		str_addf(out, "context %lld, ", (long long)l->context_parallel_size);
	str_addf(out, "pipeline %lld, data %lld", (long long)l->pipeline_model_parallel_size,
	    (long long)l->data_parallel_size);
	if (layout_expert_ranks(l) > 1)
		str_addf(out, ", expert %lld", (long long)layout_expert_ranks(l));
	if (layout_expert_slices(l) != l->tensor_model_parallel_size)
		str_addf(out, ", expert tensor %lld", (long long)layout_expert_slices(l));
}

/* Megatron-LM's names of axes all end so; '_' equals '-' in options. */
static bool
names_axis(const char *name)
{
	static const char ending[] = "-parallel-size";
	size_t len = strlen(name), n = sizeof ending - 1;

	for (size_t i = 0; len >= n && i < n; i++)
		if ((name[len - n + i] == '_' ? '-' : name[len - n + i]) != ending[i])
			return false;
	return len >= n;
}

int
layout_unknown(const char *name, const char *value, struct err *e)
{
	if (!names_axis(name) || (value && !strcmp(value, "1")))
		return 0;
	return err_set(e,
	    "--%s %s: must be 1: this version has no such axis, so a newer one wrote this", name,
	    value ? value : "without a value");
}
