/* options_recompute.c - which activations are computed again, from the options */
#include "lib/model/options.h"

#include <string.h>

/* Method and number apply only to full recomputation, and --recompute-activations overrides the
 * granularity, as in Megatron-LM. There the default module is core_attn, which every kernel of
 * attention recomputes here. */
int
recompute_resolve(
    const struct opt_parse *p, const struct run_options *o, struct recompute *r, struct err *e)
{
	static const struct {
		const char *name;
		enum recompute_module module;
	} known[] = { { "core_attn", RECOMPUTE_CORE_ATTN }, { "layernorm", RECOMPUTE_LAYERNORM },
		{ "mlp", RECOMPUTE_MLP }, { "moe_act", RECOMPUTE_MOE_ACT },
		{ "moe", RECOMPUTE_MOE }, { "shared_experts", RECOMPUTE_SHARED_EXPERTS } };

	r->granularity = o->recompute_activations
	    ? RECOMPUTE_SELECTIVE
	    : (enum recompute_granularity)o->recompute_granularity;
	r->method = (enum recompute_method)o->recompute_method;
	r->num_layers = o->recompute_num_layers;
	if (opt_given(p, "recompute-modules") && r->granularity != RECOMPUTE_SELECTIVE)
		return err_set(e, "--recompute-modules: is for --recompute-granularity selective");
	for (int i = 0; i < o->recompute_modules.count; i++) {
		const char *name = o->recompute_modules.item[i];
		unsigned before = r->modules;

		for (size_t k = 0; k < sizeof known / sizeof *known; k++)
			if (!strcmp(name, known[k].name))
				r->modules |= known[k].module;
		if (r->modules == before)
			return err_set(e,
			    "--recompute-modules %s: must be core_attn, layernorm, mlp, moe, "
			    "moe_act "
			    "or shared_experts, each once",
			    name);
	}
	if (r->granularity == RECOMPUTE_FULL)
		return 0;
	if (r->granularity == RECOMPUTE_SELECTIVE &&
	    (opt_given(p, "recompute-method") || opt_given(p, "recompute-num-layers")))
		return err_set(e, "--recompute-%s: is for --recompute-granularity full",
		    opt_given(p, "recompute-method") ? "method" : "num-layers");
	return 0;
}
