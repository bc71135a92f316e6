/*
 * fields_list.h - the fields of a model, a row each, and the switches that set them
 *
 * A row makes the member of struct model_config (config.h) with its range, and the option with its
 * default and help, its line in options.conf of a checkpoint, and its part in comparisons of models
 * (fields.h). Help, dumps and differences follow this order. A field whose option has no default is
 * 0 where it is not given. To add one, add its row; it is a line of every checkpoint from then on
 * unless it is MODEL_IF_SET, and its name is in files for good.
 *
 *   DO(KIND, S, M, option, ...)   M is the struct model_options in S
 *
 *   INT       member, lowest value, default or NULL, tags (enum model_tag), help
 *   NUM       member, lowest and highest value, default or NULL, tags, help
 *   ID        member, default, tags, help: a token's id
 *   FLAG      member, tags, help
 *   CHOICE    type, member, words, default, tags, help
 *   WORDS     type of the option, its member of struct model_options, unit, tags, help, declaration
 *             of the members of struct model_config, which functions of fields.c read and print
 *   SWITCH, UNSWITCH  member of struct model_options, tags of the first, help: sets other fields
 *   SAME_INT, SAME_NUM  member, lowest and for numbers highest value, help: another name
 */
#ifndef MODEL_FIELDS_LIST_H
#define MODEL_FIELDS_LIST_H

/* clang-format off */
#define MODEL_FIELDS(DO, S, M) \
	DO(INT, S, M, "num-layers", num_layers, 1, NULL, MODEL_DUMPED, "transformer layers") \
	DO(INT, S, M, "hidden-size", hidden_size, 1, NULL, MODEL_DUMPED, \
	   "width of the residual stream") \
	DO(INT, S, M, "ffn-hidden-size", ffn_hidden_size, 1, NULL, MODEL_DUMPED | MODEL_MLP, \
	   "width of the MLP; 4 hidden-size, or with --swiglu 64 floor((8 hidden-size / 3) / " \
	   "64)") \
	/* n, g and d */ \
	DO(INT, S, M, "num-attention-heads", num_attention_heads, 1, NULL, MODEL_DUMPED, \
	   "query heads") \
	DO(SWITCH, S, M, "group-query-attention", group_query_attention, MODEL_DUMPED, \
	   "use --num-query-groups key/value heads") \
	DO(INT, S, M, "num-query-groups", num_query_groups, 1, NULL, MODEL_DUMPED | MODEL_KEPT, \
	   "key/value heads; by default as many as query heads, or 1 with " \
	   "--group-query-attention") \
	DO(INT, S, M, "kv-channels", kv_channels, 1, NULL, MODEL_DUMPED, \
	   "width of a head; hidden-size / num-attention-heads by default") \
	DO(FLAG, S, M, "multi-latent-attention", multi_latent_attention, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "queries, keys and values of heads are projected up from latents of a token, and keys " \
	   "share the elements that rotate, as in DeepSeek-V2 and V3") \
	DO(INT, S, M, "q-lora-rank", q_lora_rank, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_LATENT | MODEL_KEPT, \
	   "width of the latent of queries; they have none by default", \
	   .needs = "multi-latent-attention") \
	DO(INT, S, M, "kv-lora-rank", kv_lora_rank, 1, "32", \
	   MODEL_DUMPED | MODEL_IF_LATENT | MODEL_KEPT, \
	   "width of the latent of keys and values", .needs = "multi-latent-attention") \
	DO(INT, S, M, "qk-head-dim", qk_head_dim, 1, "128", \
	   MODEL_DUMPED | MODEL_IF_LATENT | MODEL_KEPT, \
	   "elements of a query and of its key that do not rotate", \
	   .needs = "multi-latent-attention") \
	DO(INT, S, M, "qk-pos-emb-head-dim", qk_pos_emb_head_dim, 1, "64", \
	   MODEL_DUMPED | MODEL_IF_LATENT | MODEL_KEPT, \
	   "elements after them that rotate, neighbours in pairs", \
	   .needs = "multi-latent-attention") \
	DO(INT, S, M, "v-head-dim", v_head_dim, 1, "128", \
	   MODEL_DUMPED | MODEL_IF_LATENT | MODEL_KEPT, "width of a head of values", \
	   .needs = "multi-latent-attention") \
	/* 0: norm_epsilon */ \
	DO(NUM, S, M, "latent-norm-epsilon", latent_norm_epsilon, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_LATENT, \
	   "what norms of latents add to the mean square; --norm-epsilon by default", \
	   .needs = "multi-latent-attention") \
	DO(FLAG, S, M, "attention-output-gate", attention_output_gate, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "the output of attention is multiplied by sigmoids of a projection of its input, as " \
	   "in Qwen3-Next") \
	/* the pattern has the layers with linear attention */ \
	DO(WORDS, S, M, "linear-attention-freq", OPT_STRING, linear_attention_freq, "N", \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, NULL, \
	   "all but every Nth layer have linear attention by the gated delta rule in place of " \
	   "attention; or a list of all layers, 1 for those, such as ([1]*3+[0])*12", \
	   struct layer_pattern linear_attention_freq) \
	DO(INT, S, M, "linear-num-key-heads", linear_num_key_heads, 1, "16", \
	   MODEL_DUMPED | MODEL_IF_LINEAR | MODEL_KEPT, \
	   "heads of queries and keys of linear attention", .needs = "linear-attention-freq") \
	DO(INT, S, M, "linear-num-value-heads", linear_num_value_heads, 1, "32", \
	   MODEL_DUMPED | MODEL_IF_LINEAR | MODEL_KEPT, \
	   "heads of its values, which share those", .needs = "linear-attention-freq") \
	DO(INT, S, M, "linear-key-head-dim", linear_key_head_dim, 1, "128", \
	   MODEL_DUMPED | MODEL_IF_LINEAR | MODEL_KEPT, "width of a head of its keys", \
	   .needs = "linear-attention-freq") \
	DO(INT, S, M, "linear-value-head-dim", linear_value_head_dim, 1, "128", \
	   MODEL_DUMPED | MODEL_IF_LINEAR | MODEL_KEPT, "width of a head of its values", \
	   .needs = "linear-attention-freq") \
	DO(INT, S, M, "linear-conv-kernel-dim", linear_conv_kernel_dim, 2, "4", \
	   MODEL_DUMPED | MODEL_IF_LINEAR | MODEL_KEPT, \
	   "positions that each channel of its queries, keys and values takes in", \
	   .needs = "linear-attention-freq") \
	DO(INT, S, M, "max-position-embeddings", max_position_embeddings, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_FREE, \
	   "positions, at least seq-length, which is the default") \
	/* real tokens: the layout adds padding (layout.h) */ \
	DO(INT, S, M, "vocab-size", vocab_size, 1, NULL, MODEL_DUMPED, \
	   "tokens of the vocabulary; the tokenizer's by default") \
	DO(INT, S, M, "make-vocab-size-divisible-by", make_vocab_size_divisible_by, 1, "128", \
	   MODEL_DUMPED | MODEL_BASE | MODEL_FREE, \
	   "pad the vocabulary in memory to a multiple of this and of 16 tensor ranks; the " \
	   "padding is masked, never on disk") \
	DO(CHOICE, S, M, "normalization", enum normalization, normalization, normalization_names, \
	   "LayerNorm", MODEL_DUMPED | MODEL_KEPT, "kind of normalisation") \
	DO(NUM, S, M, "norm-epsilon", norm_epsilon, 0, INFINITY, "1e-5", MODEL_DUMPED, \
	   "added to the mean square") \
	DO(CHOICE, S, M, "norm-placement", enum norm_placement, norm_placement, \
	   norm_placement_names, "pre", MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "norms of the inputs of attention and MLP, of their outputs before the residual sum, " \
	   "or of both") \
	DO(FLAG, S, M, "apply-layernorm-1p", apply_layernorm_1p, MODEL_DUMPED | MODEL_KEPT, \
	   "weights of norms are stored less 1") \
	DO(FLAG, S, M, "norm-without-bias", norm_without_bias, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, "LayerNorm has weights alone") \
	DO(FLAG, S, M, "use-parallel-residual", use_parallel_residual, MODEL_DUMPED | MODEL_KEPT, \
	   "the MLP of a layer reads what its attention reads, and both are added to it") \
	DO(FLAG, S, M, "shared-parallel-norm", shared_parallel_norm, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "attention and MLP of a layer have one norm of their input") \
	DO(CHOICE, S, M, "activation", enum activation, activation, activation_names, "gelu", \
	   MODEL_DUMPED | MODEL_KEPT, "activation of the MLP") \
	DO(SWITCH, S, M, "swiglu", swiglu, 0, "gated SiLU in the MLP: --activation swiglu") \
	DO(SWITCH, S, M, "quick-geglu", quick_geglu, 0, \
	   "x sigmoid(1.702 x) as the gate: --activation quick-geglu") \
	DO(NUM, S, M, "glu-linear-offset", glu_linear_offset, -INFINITY, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "what a gated activation adds to the half of its input that the gate multiplies") \
	DO(NUM, S, M, "activation-func-clamp-value", activation_func_clamp_value, 0, INFINITY, \
	   NULL, MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "bounds of the inputs of a gated activation: above of the gate, on both sides of the " \
	   "other half; none by default") \
	DO(SWITCH, S, M, "squared-relu", squared_relu, 0, "--activation squared-relu") \
	DO(SWITCH, S, M, "openai-gelu", openai_gelu, 0, "GELU by tanh, as --activation gelu") \
	DO(UNSWITCH, S, M, "no-bias-gelu-fusion", bias_gelu_fusion, \
	   "GELU by the error function, as Megatron-LM computes it without the fusion") \
	DO(CHOICE, S, M, "position-embedding-type", enum position, position, position_names, \
	   "learned_absolute", MODEL_DUMPED | MODEL_KEPT, "kind of positions", \
	   .alias = position_words) \
	DO(UNSWITCH, S, M, "no-position-embedding", add_position_embedding, \
	   "no learned positions, with --position-embedding-type rope") \
	DO(SWITCH, S, M, "use-rotary-position-embeddings", use_rotary_position_embeddings, 0, \
	   "--position-embedding-type rope") \
	DO(NUM, S, M, "rotary-base", rotary_base, 1, INFINITY, "10000", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_BASE | MODEL_KEPT | MODEL_ROTARY, \
	   "base of the rotary angles", \
	   .needs = "position-embedding-type=rope") \
	DO(SAME_NUM, S, M, "rope-theta", rotary_base, 1, INFINITY, "the same as --rotary-base", \
	   .needs = "position-embedding-type=rope") \
	DO(NUM, S, M, "rotary-percent", rotary_percent, 0, 1, "1", \
	   MODEL_DUMPED | MODEL_BASE | MODEL_KEPT | MODEL_ROTARY, "share of a head that rotates", \
	   .needs = "position-embedding-type=rope") \
	DO(FLAG, S, M, "rotary-interleaved", rotary_interleaved, \
	   MODEL_DUMPED | MODEL_KEPT | MODEL_ROTARY, "rotate pairs (2i, 2i+1) instead of halves", \
	   .needs = "position-embedding-type=rope") \
	DO(SWITCH, S, M, "use-rope-scaling", use_rope_scaling, 0, "--rope-scaling-type llama3", \
	   .needs = "position-embedding-type=rope") \
	DO(CHOICE, S, M, "rope-scaling-type", enum rope_scaling, rope_scaling, rope_scaling_names, \
	   "none", MODEL_DUMPED | MODEL_FREE_START, "scaling of the rotary angles", \
	   .needs = "position-embedding-type=rope") \
	DO(NUM, S, M, "rope-scaling-factor", rope_factor, 0, INFINITY, "8", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SCALED, "factor of the scaling", \
	   .needs = "position-embedding-type=rope&rope-scaling-type") \
	DO(SAME_NUM, S, M, "rotary-scaling-factor", rope_factor, 0, INFINITY, \
	   "--rope-scaling-type yarn with this factor and 4096 original positions", \
	   .needs = "multi-latent-attention") \
	DO(NUM, S, M, "rope-low-freq-factor", rope_low_freq_factor, 0, INFINITY, "1", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_LLAMA3, "of llama3 scaling", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=llama3") \
	DO(NUM, S, M, "rope-high-freq-factor", rope_high_freq_factor, 0, INFINITY, "4", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_LLAMA3, "of llama3 scaling", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=llama3") \
	DO(INT, S, M, "rope-original-positions", rope_original_positions, 1, "8192", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_LLAMA3 | MODEL_IF_YARN | MODEL_IF_LONGROPE, \
	   "of llama3, yarn and longrope scaling", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=llama3|" \
	            "rope-scaling-type=yarn|rope-scaling-type=longrope") \
	DO(SAME_INT, S, M, "yarn-original-max-position-embeddings", rope_original_positions, 1, \
	   "the same as --rope-original-positions", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=yarn") \
	DO(NUM, S, M, "yarn-beta-fast", yarn_beta_fast, 0, INFINITY, "32", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_YARN, \
	   "turns over the original positions from which on yarn keeps an angle", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=yarn") \
	DO(NUM, S, M, "yarn-beta-slow", yarn_beta_slow, 0, INFINITY, "1", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_YARN, \
	   "turns below which yarn divides it by the factor", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=yarn") \
	/* 0: yarn_scale of the next two */ \
	DO(NUM, S, M, "yarn-attention-factor", yarn_attention_factor, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SET | MODEL_IF_YARN, \
	   "what yarn multiplies cosines and sines by; 0.1 ln(factor) + 1 by default", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=yarn") \
	/* 0: 1 */ \
	DO(NUM, S, M, "mscale", yarn_mscale, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SET | MODEL_IF_YARN, \
	   "m of 0.1 m ln(factor) + 1, which multiplies cosines and sines; 1 by default", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=yarn") \
	DO(NUM, S, M, "mscale-all-dim", yarn_mscale_all_dim, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SET | MODEL_IF_YARN, \
	   "the same that divides them and whose square multiplies all dot products of queries " \
	   "and keys", \
	   .needs = "multi-latent-attention&position-embedding-type=rope&rope-scaling-type=yarn") \
	DO(FLAG, S, M, "no-yarn-correction-range-round-to-int", yarn_unrounded_range, \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SET | MODEL_IF_YARN, \
	   "yarn interpolates between pairs that are not rounded", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=yarn") \
	DO(NUM, S, M, "query-scaling-beta", query_scaling_beta, -INFINITY, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SET | MODEL_IF_YARN, \
	   "queries times 1 + this times ln(1 + floor(position / rope-original-positions)), as " \
	   "in Ministral 3: only lengths up to these positions, where it is 1, are supported", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=yarn") \
	DO(WORDS, S, M, "longrope-short-factor", OPT_LIST, longrope_short_factor, "X", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_LONGROPE, \
	   "position-embedding-type=rope&rope-scaling-type=longrope", \
	   "divisors of the angles of all pairs where a sequence has at most " \
	   "rope-original-positions", struct rope_factors longrope_short_factor) \
	DO(WORDS, S, M, "longrope-long-factor", OPT_LIST, longrope_long_factor, "X", \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_LONGROPE, \
	   "position-embedding-type=rope&rope-scaling-type=longrope", \
	   "the same where it has more: seq-length decides, and in a generation the tokens of " \
	   "the prompt with those asked for", struct rope_factors longrope_long_factor) \
	DO(NUM, S, M, "longrope-attention-factor", longrope_attention_factor, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SET | MODEL_IF_LONGROPE, \
	   "what longrope multiplies cosines and sines by; 1 by default", \
	   .needs = "position-embedding-type=rope&rope-scaling-type=longrope") \
	/* the pattern has the layers that do not rotate */ \
	DO(WORDS, S, M, "no-rope-freq", OPT_STRING, no_rope_freq, "N", \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT | MODEL_ROTARY, \
	   "position-embedding-type=rope", \
	   "every Nth layer does not rotate queries and keys; or a list of all layers, 1 for " \
	   "those, such as ([0]*3+[1])*8", struct layer_pattern no_rope_freq) \
	DO(FLAG, S, M, "scale-embeddings-by-hidden-size", scale_embeddings_by_hidden_size, \
	   MODEL_DUMPED | MODEL_KEPT, \
	   "word embeddings times the square root of hidden-size, rounded to the run's type") \
	DO(UNSWITCH, S, M, "disable-bias-linear", add_bias_linear, \
	   "no biases in the linear layers") \
	DO(SWITCH, S, M, "add-qkv-bias", add_qkv_bias, 0, \
	   "biases on q, k and v even with --disable-bias-linear") \
	DO(WORDS, S, M, "linear-biases", OPT_LIST, linear_biases, "WHERE", \
	   MODEL_DUMPED | MODEL_KEPT, NULL, \
	   "which linear layers have biases: any of qkv, proj, mlp; or none", bool qkv_bias, \
	   proj_bias, mlp_bias) \
	DO(FLAG, S, M, "qk-layernorm", qk_layernorm, MODEL_DUMPED | MODEL_KEPT, \
	   "norms of the heads of q and k, with one weight for all heads of a layer") \
	DO(FLAG, S, M, "qk-layernorm-hidden-dim", qk_layernorm_hidden_dim, \
	   MODEL_DUMPED | MODEL_KEPT, \
	   "with --qk-layernorm: one norm of all heads of q, and one of all of k, with one " \
	   "tensor rank") \
	DO(FLAG, S, M, "untie-embeddings-and-output-weights", untie_embeddings_and_output_weights, \
	   MODEL_DUMPED | MODEL_KEPT, "a separate output table") \
	/* 0: all keys; the pattern has the layers whose queries see all of them */ \
	DO(WORDS, S, M, "window-size", OPT_STRING, window_size, "W", \
	   MODEL_DUMPED | MODEL_IF_SET, NULL, \
	   "keys that a query sees, itself included; or W-1,0, as Megatron-LM counts; all by " \
	   "default", int64_t window_size) \
	DO(WORDS, S, M, "window-attn-skip-freq", OPT_STRING, window_attn_skip_freq, "N", \
	   MODEL_DUMPED | MODEL_IF_SET, "window-size", \
	   "in every Nth layer queries see all keys; or a list of all layers, 1 for a window, " \
	   "such as ([1]*5+[0])*8", struct layer_pattern window_attn_skip_freq) \
	DO(NUM, S, M, "sliding-window-rope-base", sliding_window_rope_base, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_FREE_START | MODEL_IF_SET | MODEL_KEPT, \
	   "base of the rotary angles in layers with a window, not scaled; --rotary-base by " \
	   "default", .needs = "window-size") \
	DO(INT, S, M, "query-pre-attn-scalar", query_pre_attn_scalar, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "dot products of queries and keys are multiplied by its -1/2 power; kv-channels by " \
	   "default") \
	DO(NUM, S, M, "attn-logit-softcapping", attn_logit_softcapping, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "c of c tanh(x / c) over the scores of attention; 0: none. cuDNN does not serve such " \
	   "attention, own kernels do") \
	DO(CHOICE, S, M, "softmax-type", enum softmax_type, softmax_type, softmax_type_names, \
	   "vanilla", MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "one more score in each softmax of attention, which no value belongs to: 0 " \
	   "(off-by-one), or a number that each head learns (learnable). cuDNN does not serve " \
	   "such attention, own kernels do") \
	DO(NUM, S, M, "final-logit-softcapping", final_logit_softcapping, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, "the same over the logits") \
	/* 0: 1, and of the scores the -1/2 power of the width */ \
	DO(NUM, S, M, "embedding-multiplier", embedding_multiplier, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, "word embeddings times this, as in Granite") \
	DO(NUM, S, M, "residual-multiplier", residual_multiplier, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "what attention and MLP add to the residual stream times this") \
	DO(NUM, S, M, "attention-multiplier", attention_multiplier, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "dot products of queries and keys times this, in place of --query-pre-attn-scalar") \
	DO(NUM, S, M, "logits-scaling", logits_scaling, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "logits divided by this, before the loss and --final-logit-softcapping") \
	DO(INT, S, M, "num-experts", num_experts, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "experts, of which a layer has these in place of an MLP") \
	/* the layers with an MLP in place of experts */ \
	DO(WORDS, S, M, "moe-layer-freq", OPT_STRING, moe_layer_freq, "N", \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, "num-experts", \
	   "the first and then every Nth layer has experts; or a list of all layers, 1 for " \
	   "experts, such as ([0]*1+[1]*3)*8; all by default", \
	   struct layer_pattern moe_layer_freq) \
	DO(INT, S, M, "moe-router-topk", moe_router_topk, 1, "2", \
	   MODEL_DUMPED | MODEL_BASE | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "experts that a token is sent to", .needs = "num-experts") \
	DO(INT, S, M, "moe-ffn-hidden-size", moe_ffn_hidden_size, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_EXPERTS, "width of an expert; --ffn-hidden-size by default", \
	   .needs = "num-experts") \
	DO(INT, S, M, "moe-shared-expert-intermediate-size", moe_shared_expert_intermediate_size, \
	   1, NULL, MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "width of an expert that all tokens of a layer are sent to; none by default", \
	   .needs = "num-experts") \
	DO(FLAG, S, M, "moe-shared-expert-gate", moe_shared_expert_gate, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "the output of that expert times the sigmoid of a linear of its input", \
	   .needs = "num-experts") \
	DO(CHOICE, S, M, "moe-router-score-function", enum router_score, \
	   moe_router_score_function, router_score_names, "softmax", \
	   MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "weights of a token's experts: softmax of their logits, or their sigmoids divided by " \
	   "the sum of these", .needs = "num-experts") \
	DO(FLAG, S, M, "moe-router-pre-softmax", moe_router_pre_softmax, \
	   MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "softmax over all experts before those of a token are chosen, as Hugging Face's " \
	   "norm_topk_prob false; over the chosen ones by default", .needs = "num-experts") \
	/* 0: 1 */ \
	DO(NUM, S, M, "moe-router-topk-scaling-factor", moe_router_topk_scaling_factor, 0, \
	   INFINITY, NULL, MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "the weights of a token's experts times this", .needs = "num-experts") \
	DO(INT, S, M, "moe-router-num-groups", moe_router_num_groups, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "groups of neighbouring experts, of which a token is sent to the best alone", \
	   .needs = "num-experts&moe-router-group-topk") \
	DO(INT, S, M, "moe-router-group-topk", moe_router_group_topk, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "groups that a token is sent to", .needs = "num-experts&moe-router-num-groups") \
	DO(INT, S, M, "moe-router-group-scores", moe_router_group_scores, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "the highest scores of a group that add up to its own: moe-router-topk / " \
	   "moe-router-group-topk by default, as in Megatron-LM; 2 in DeepSeek-V3, 1 for the " \
	   "maximum of DeepSeek-V2", .needs = "num-experts&moe-router-num-groups") \
	DO(FLAG, S, M, "moe-router-enable-expert-bias", moe_router_enable_expert_bias, \
	   MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_KEPT, \
	   "with sigmoid: choose by scores with a bias for each expert, which every step raises " \
	   "for those with too few tokens and lowers for the others", .needs = "num-experts") \
	DO(NUM, S, M, "moe-router-bias-update-rate", moe_router_bias_update_rate, 0, INFINITY, \
	   "1e-3", MODEL_DUMPED | MODEL_BASE | MODEL_IF_EXPERTS | MODEL_FREE, \
	   "by how much it does so", .needs = "num-experts&moe-router-enable-expert-bias") \
	DO(CHOICE, S, M, "moe-router-load-balancing-type", enum balancing, \
	   moe_router_load_balancing_type, balancing_names, "aux_loss", \
	   MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_FREE, \
	   "what --moe-aux-loss-coeff balances the load of experts over: the tokens of a micro " \
	   "batch (aux_loss), each sequence (seq_aux_loss), or all micro batches of all data " \
	   "ranks in the step so far (global_aux_loss); the last two are not supported", \
	   .needs = "num-experts") \
	DO(NUM, S, M, "moe-aux-loss-coeff", moe_aux_loss_coeff, 0, INFINITY, "0", \
	   MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_FREE, \
	   "weight of the loss that balances the load of experts", \
	   .needs = "num-experts&moe-router-load-balancing-type=aux_loss|" \
	            "moe-router-load-balancing-type=seq_aux_loss|" \
	            "moe-router-load-balancing-type=global_aux_loss") \
	DO(NUM, S, M, "moe-z-loss-coeff", moe_z_loss_coeff, 0, INFINITY, NULL, \
	   MODEL_DUMPED | MODEL_IF_EXPERTS | MODEL_FREE, \
	   "weight of the mean square of the router's log-sum-exp", .needs = "num-experts") \
	DO(INT, S, M, "mtp-num-layers", mtp_num_layers, 1, NULL, \
	   MODEL_DUMPED | MODEL_IF_SET | MODEL_KEPT, \
	   "layers after the last one that predict later tokens, each the token after that " \
	   "of the one before, as in DeepSeek-V3") \
	DO(NUM, S, M, "mtp-loss-scaling-factor", mtp_loss_scaling_factor, 0, INFINITY, "0.1", \
	   MODEL_DUMPED | MODEL_BASE | MODEL_IF_MTP | MODEL_FREE, \
	   "weight of the mean of their losses", .needs = "mtp-num-layers") \
	DO(NUM, S, M, "init-method-std", init_method_std, 0, INFINITY, "0.02", \
	   MODEL_DUMPED | MODEL_BASE | MODEL_FREE, "standard deviation of the initial weights") \
	DO(NUM, S, M, "attention-dropout", attention_dropout, 0, 0.999, "0.1", \
	   MODEL_DUMPED | MODEL_KEPT | MODEL_FREE, "dropout of attention probabilities") \
	DO(NUM, S, M, "hidden-dropout", hidden_dropout, 0, 0.999, "0.1", \
	   MODEL_DUMPED | MODEL_KEPT | MODEL_FREE, "dropout of block outputs and embeddings") \
	DO(NUM, S, M, "embedding-dropout", embedding_dropout, 0, 0.999, NULL, \
	   MODEL_DUMPED | MODEL_KEPT | MODEL_FREE, \
	   "dropout of embeddings, if different, such as GPT-2's embd_pdrop") \
	/* chat models may have several ends */ \
	DO(ID, S, M, "bos-token-id", bos_token_id, "-1", MODEL_DUMPED | MODEL_BASE | MODEL_FREE, \
	   "beginning of text, for export; -1: none") \
	DO(WORDS, S, M, "eos-token-id", OPT_LIST, eos_token_id, "ID", \
	   MODEL_DUMPED | MODEL_FREE, NULL, \
	   "ends of text, for export; the tokenizer's by default", struct id_list eos_token_id) \
	DO(ID, S, M, "pad-token-id", pad_token_id, "-1", MODEL_DUMPED | MODEL_BASE | MODEL_FREE, \
	   "padding, for export")
/* clang-format on */

#endif
