/* family_list.h - the registry of families, from which family.c makes its table */
#ifndef MODEL_FAMILY_LIST_H
#define MODEL_FAMILY_LIST_H

/* A family's name: lib/model/family/NAME.c ends with the const struct family family_NAME
 * (family.h). In the order in which family_of tries them. */
#define FAMILIES(DO) \
	DO(llama) \
	DO(gpt2) \
	DO(mistral) \
	DO(mixtral) \
	DO(qwen2) \
	DO(qwen3) \
	DO(qwen3_moe) \
	DO(phi3) \
	DO(gemma2) \
	DO(gemma3) \
	DO(olmo2) \
	DO(gptneox) \
	DO(arcee) \
	DO(nemotron) \
	DO(starcoder2) \
	DO(seed_oss) \
	DO(gemma) \
	DO(olmoe) \
	DO(ministral) \
	DO(olmo3) \
	DO(smollm3) \
	DO(exaone4) \
	DO(granite) \
	DO(ministral3) \
	DO(cohere2) \
	DO(qwen2_moe) \
	DO(deepseek_v2) \
	DO(deepseek_v3) \
	DO(gpt_oss) \
	DO(qwen3_next)

#endif
