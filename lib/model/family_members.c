/*
 * family_members.c - the members of a config.json that nobody reads
 *
 * A member is read by a row or by the family's code, or changes nothing in any model of
 * transformers, or is named in a note: none that might change the model is passed over in silence.
 */
#include "lib/model/family_impl.h"

#include <string.h>

/* What transformers keeps beside a model, and what it takes for generate(). */
static const char *const harmless[] = { "model_type", "architectures", "auto_map", "dtype",
	"torch_dtype", "transformers_version", "use_cache", "_name_or_path", "name_or_path",
	"_commit_hash", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
	"decoder_start_token_id", "tie_word_embeddings", "id2label", "label2id", "num_labels",
	"problem_type", "finetuning_task", "task_specific_params", "output_attentions",
	"output_hidden_states", "output_router_logits", "return_dict", "use_return_dict",
	"is_encoder_decoder", "is_decoder", "tie_encoder_decoder", "cross_attention_hidden_size",
	"tokenizer_class", "prefix", "torchscript", "tf_legacy_loss", "use_bfloat16",
	"gradient_checkpointing", "attn_implementation", "_attn_implementation",
	"_attn_implementation_autoset", "_attn_implementation_internal", "_flash_attn_2_enabled",
	"experts_implementation", "chunk_size_feed_forward", "classifier_dropout",
	"classifier_dropout_prob", "quantization_config", "pretraining_tp", "max_length",
	"min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
	"diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
	"length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
	"num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id",
	"forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
	"suppress_tokens", "begin_suppress_tokens", "max_new_tokens", "cache_implementation",
	"unsloth_version", "unsloth_fixed", "vision_config", "audio_config", "image_token_id",
	"video_token_id", "vision_token_id", "vision_start_token_id", "vision_end_token_id",
	"num_nextn_predict_layers", "num_mtp_layers", NULL };

/* What a file may say that its model lacks: named unless it is off. */
static const char *const off[] = { "attention_bias", "mlp_bias", "use_bias", "attention_out_bias",
	"use_sliding_window", "sliding_window", "max_window_layers", "layer_types", "rope_scaling",
	"rope_parameters", "use_mrope", "router_jitter_noise", "attn_logit_softcapping",
	"final_logit_softcapping", "clip_qkv", "use_bidirectional_attention", "add_cross_attention",
	"pruned_heads", "attention_dropout", "hidden_dropout", "embedding_dropout",
	"residual_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "rope_interleaved",
	"use_qk_norm", "qk_layernorm", "logit_scale", NULL };

/* Members of rotary dictionaries: those that are read, and those of models of images. */
static const char *const rotary[] = { "type", "rope_type", "rope_theta", "factor",
	"low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "beta_fast",
	"beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate", "short_factor",
	"long_factor", "partial_rotary_factor", "mrope_section", "mrope_interleaved", "finetuned",
	"full_attention", "sliding_attention", NULL };

static bool
has_name(const char *const *list, const char *name)
{
	while (list && *list && strcmp(*list, name))
		list++;
	return list && *list;
}

static bool
has_key(const struct key *keys, int count, const char *name)
{
	while (count > 0 && strcmp(keys[count - 1].name, name))
		count--;
	return count > 0;
}

/* Appends a name to a list, which has `count` of them. */
static void
add_name(struct str *out, const char *inside, const struct json_value *m)
{
	str_addf(out, "%s%s%s%.60s", out->len ? ", " : "", inside, *inside ? "." : "", m->key);
}

/* Whether a member is of a row or list of the family's. */
static bool
is_familys(const struct family *f, const char *name)
{
	return has_key(f->keys, f->num_keys, name) || has_name(f->others, name) ||
	    has_name(f->off, name);
}

static void
add_unread(const struct family *f, const struct json_value *config, struct str *out)
{
	for (size_t i = 0; i < config->len; i++) {
		const struct json_value *m = &config->item[i];
		bool known = is_familys(f, m->key) || has_name(harmless, m->key) ||
		    has_key(family_shared, family_num_shared, m->key);

		if (!known && !(has_name(off, m->key) && family_is_off(m)))
			add_name(out, "", m);
	}
}

static void
add_unread_rotary(
    const struct family *f, const struct json_value *dict, const char *inside, struct str *out)
{
	if (!dict || dict->type != JSON_OBJECT)
		return;
	for (size_t i = 0; i < dict->len; i++)
		if (!has_name(rotary, dict->item[i].key) && !is_familys(f, dict->item[i].key))
			add_name(out, inside, &dict->item[i]);
}

void
family_note_members(
    const struct family *f, const struct json_value *config, const char *file, struct str *notes)
{
	const struct json_value *dict = family_rope_of(config);
	struct str names = { 0 };

	add_unread(f, config, &names);
	if (has_name(f->others, "rope_parameters")) {
		add_unread_rotary(f, json_get(config, "rope_scaling"), "rope_scaling", &names);
		add_unread_rotary(
		    f, json_get(config, "rope_parameters"), "rope_parameters", &names);
		if (json_get(dict, "mrope_section"))
			str_addf(notes,
			    "%s: the positions of text are one number here, not three (mrope): "
			    "its angles are those\n",
			    file);
	}
	if (names.len)
		str_addf(notes, "%s: not read: %s\n", file, names.buf);
	str_release(&names);
}

int
family_check_off(const struct family *f, const struct json_value *config, struct err *e)
{
	static const char *const all[] = { "per_layer_config", NULL };
	const char *const *lists[] = { all, f->off };

	for (int k = 0; k < 2; k++)
		for (const char *const *name = lists[k]; name && *name; name++)
			if (!family_is_off(json_get(config, *name)))
				return err_set(e, "\"%s\" is set, which is not supported", *name);
	return 0;
}
