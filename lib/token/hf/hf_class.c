/*
 * hf_class.c - what a class of transformers has in place of a tokenizer.json's members
 *
 * AutoTokenizer picks a class from "tokenizer_class" of the configs and the model's type. The
 * generic one takes tokenizer.json as it is; those below take only its vocabulary, merges and,
 * mostly, its post-processor, and build the rest anew. Source: transformers 5.23,
 * models/auto/tokenization_auto.py and the tokenization files of the models. Before version 5 those
 * classes kept the file's members, and those of Llama and Gemma made the template anew from
 * "add_bos_token" and "add_eos_token", which 5 drops where there is a tokenizer.json.
 */
#include "lib/base/mem.h"
#include "lib/token/hf/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Members of the file; a word after @ is replaced by what the configs say. */
#define MODEL(unk, fuse, fallback) \
	"\"model\": {\"unk_token\": " unk ", \"fuse_unk\": " fuse ", \"byte_fallback\": " fallback \
	", \"ignore_merges\": false, \"dropout\": null, \"continuing_subword_prefix\": null, " \
	"\"end_of_word_suffix\": null}"
#define MARKED_DECODER(more) \
	"\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", " \
	"\"pattern\": {\"String\": \"\u2581\"}, " \
	"\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}" more "]}"
#define STRIP(start) \
	", {\"type\": \"Strip\", \"content\": \" \", \"start\": " start ", \"stop\": 0}"
#define METASPACE(scheme) \
	"\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": " \
	"\"\u2581\", " \
	"\"prepend_scheme\": " scheme ", \"split\": false}"
#define BYTE_LEVEL(regex) \
	"{\"type\": \"ByteLevel\", \"add_prefix_space\": @space, \"use_regex\": " regex "}"
#define BYTES_DECODER "\"decoder\": {\"type\": \"ByteLevel\"}"
#define QWEN2_PATTERN \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| " \
	"?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" \
	"|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define ENDOFTEXT "<|endoftext|>"
#define TOKENS(unk, bos, eos) \
	"\"unk_token\": \"" unk "\", \"bos_token\": " bos ", \"eos_token\": \"" eos "\""

/* A class; the model types are words between blanks. */
struct class_row {
	const char *name, *model_types;
	const char *members;
	const char *tokens; /* special tokens that it has by default */
	bool space;         /* add_prefix_space by default */
	/* bos alone stands before a text: always, or by default without a tokenizer.json */
	bool bos;
};

static const struct class_row rows[] = {
	{ "LlamaTokenizer", " idefics idefics2 ",
	    "{" METASPACE("@scheme") ", " MARKED_DECODER(STRIP("@strip")) ", " MODEL(
		"null", "true", "true") "}",
	    "{" TOKENS("<unk>", "\"<s>\"", "</s>") "}", .space = true },
	{ "CodeLlamaTokenizer", " code_llama ",
	    "{" METASPACE("@first") ", " MARKED_DECODER(STRIP("1")) ", " MODEL(
		"@unk", "true", "true") "}",
	    "{" TOKENS(
		"<unk>", "\"<s>\"", "</s>") ", \"extra_special_tokens\": "
					    "[\"\u2581<PRE>\", \"\u2581<MID>\", \"\u2581<SUF>\", "
					    "\"\u2581<EOT>\", \"<FILL_ME>\"]}",
	    .space = true, .bos = true },
	{ "GemmaTokenizer",
	    " diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
	    "shieldgemma2 t5gemma zaya ",
	    "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
	    "\"content\": \"\u2581\"}, "
	    "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, "
	    "\"behavior\": \"MergedWithPrevious\", "
	    "\"invert\": false}, " MARKED_DECODER("") ", " MODEL("@unk", "true", "true") "}",
	    "{" TOKENS("<unk>", "\"<bos>\"",
		"<eos>") ", \"pad_token\": \"<pad>\", \"mask_token\": \"<mask>\"}" },
	{ "GPT2Tokenizer",
	    " blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip "
	    "instructblipvideo "
	    "jais2 opt phi starcoder2 ",
	    "{\"normalizer\": null, \"pre_tokenizer\": " BYTE_LEVEL(
		"true") ", " BYTES_DECODER ", " MODEL("null", "false", "false") "}",
	    "{" TOKENS(ENDOFTEXT, "\"" ENDOFTEXT "\"", ENDOFTEXT) "}" },
	{ "Qwen2Tokenizer",
	    " audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl "
	    "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio "
	    "qwen2_moe qwen2_vl "
	    "qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe ",
	    "{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
	    "\"pretokenizers\": [{\"type\": "
	    "\"Split\", \"pattern\": {\"Regex\": \"" QWEN2_PATTERN
	    "\"}, \"behavior\": \"Isolated\", \"invert\": false}, " BYTE_LEVEL(
		"false") "]}, " BYTES_DECODER ", " MODEL("null", "false", "false") "}",
	    "{" TOKENS(ENDOFTEXT, "null", ENDOFTEXT) ", \"pad_token\": \"" ENDOFTEXT "\"}" },
	{ "GPTNeoXTokenizer", " falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm ",
	    "{\"normalizer\": {\"type\": \"NFC\"}, \"post_processor\": null, "
	    "\"pre_tokenizer\": " BYTE_LEVEL("true") ", " BYTES_DECODER
						     ", " MODEL("null", "false", "false") "}",
	    "{" TOKENS(
		ENDOFTEXT, "\"" ENDOFTEXT "\"", ENDOFTEXT) ", \"pad_token\": \"<|padding|>\"}" },
};

/* Types whose class is the generic one, whatever their configs say. */
static const struct class_row generic = { "TokenizersBackend",
	" EvollaModel aria beam bigbird_pegasus canary flex_olmo glm glm4 glm4_moe glm4_moe_lite "
	"glm4v "
	"glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe "
	"granitemoehybrid granitemoeshared kimi_k25 kimi_linear kosmos-2 mimo_v2_flash minicpm_ocr "
	"minicpmv4_6 minicpmv4_7 ministral ministral3 mistral mistral3 mistral_large4 mixtral "
	"nemo_speechlm nystromformer olmo2 olmo3 olmo_hybrid pegasus_x persimmon pix2struct "
	"pixtral "
	"pocket_tts stablelm umt5 voxtral voxtral_realtime xlm-roberta-xl openvla vipllava "
	"modernbert "
	"iquestcoder fuyu minicpmv molmo2 nemotron ernie4_5_moe hyperclovax_vlm camembertv2-base "
	"step3_vl "
	"internlm3 opencua ernie4_5 arctic llava_next phimoe paddleocr_vl nvfp4 hyperclovax "
	"minicpm3 "
	"cohere_asr phi3 smolvlm chatlm modernbert-decoder h2ovl_chat llava molmo jamba internlm2 "
	"minimax_m2 phi3_v " };

/* Types of the rows above whose published configs name a wrong class. */
static const char misnamed[] = " qwen2 hyperclovax_vision_v2 ";

/* Other names of the generic class. */
static const char generic_names[] = " TokenizersBackend PreTrainedTokenizer PythonBackend ";

enum { NUM_ROWS = sizeof rows / sizeof *rows };

/* --- the choice
 * ------------------------------------------------------------------------------------ */

/* A member that is a string, or NULL. */
static const char *
text_of(const struct json_value *v, const char *key)
{
	const struct json_value *m = json_get(v, key);

	return m && m->type == JSON_STRING ? m->string : NULL;
}

/* Is it one of the words between blanks? */
static bool
listed(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; n && (at = strstr(at, word)); at++)
		if (at > words && at[-1] == ' ' && at[n] == ' ')
			return true;
	return false;
}

/* Is there such a string in a component, at any depth? */
static bool
mentions(const struct json_value *v, const char *text)
{
	if (!v || v->type == JSON_STRING)
		return v && !strcmp(v->string, text);
	for (size_t i = 0; (v->type == JSON_ARRAY || v->type == JSON_OBJECT) && i < v->len; i++)
		if (mentions(&v->item[i], text))
			return true;
	return false;
}

/* Does a component work on bytes? */
static bool
byte_level(const struct json_value *root)
{
	static const char *const components[] = { "normalizer", "pre_tokenizer", "post_processor",
		"decoder" };

	for (size_t i = 0; i < sizeof components / sizeof *components; i++)
		if (mentions(json_get(root, components[i]), "ByteLevel"))
			return true;
	return false;
}

/* The class of a model type; NULL: none that is known here. */
static const struct class_row *
row_of_type(const char *type)
{
	if (listed(generic.model_types, type))
		return &generic;
	for (size_t i = 0; i < NUM_ROWS; i++)
		if (listed(rows[i].model_types, type))
			return &rows[i];
	return NULL;
}

/* The class of a name; one without a row is taken for the generic one, which does what is noted. */
static const struct class_row *
row_of_name(
    struct tokenizer *t, const struct hf_configs *c, const char *name, const char *generic_does)
{
	for (size_t i = 0; i < NUM_ROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	if (!listed(generic_names, name))
		str_addf(&t->notes, "%s: the class '%s' is not known here: %s\n", c->dir, name,
		    generic_does);
	return &generic;
}

/* The rules of AutoTokenizer, in their order. root is NULL where there is no tokenizer.json. */
static const struct class_row *
choose(struct tokenizer *t, const struct hf_configs *c, const struct json_value *root)
{
	const char *given = text_of(hf_config(c, TOKENIZER_CONFIG), "tokenizer_class"),
		   *type = text_of(hf_config(c, MODEL_CONFIG), "model_type");
	const struct class_row *registered = type ? row_of_type(type) : NULL;
	bool distrust = type && listed(misnamed, type);
	char name[64];
	size_t n;

	if (!given)
		given = text_of(hf_config(c, MODEL_CONFIG), "tokenizer_class");
	if (!given)
		return registered ? registered : &generic;
	n = strlen(given);
	snprintf(name, sizeof name, "%.*s",
	    (int)(n > 4 && !strcmp(given + n - 4, "Fast") ? n - 4 : n), given);
	if (!strcmp(name, "LlamaTokenizer") && !distrust && byte_level(root))
		return &generic;
	if (registered == &generic || (distrust && registered))
		return registered;
	return row_of_name(t, c, name,
	    root ? "tokenizer.json is followed"
		 : "only \"add_bos_token\" and \"add_eos_token\" of the configs count");
}

/* --- the members
 * ----------------------------------------------------------------------------------- */

/* A member that may be missing or null, both of which say def, or anything else. */
static bool
truth(const struct json_value *v, const char *key, bool def)
{
	const struct json_value *m = json_get(v, key);

	return m && m->type == JSON_BOOL ? m->boolean : def;
}

/* The unknown token as a JSON string: the config's, or the one by default. */
static void
add_unk(struct str *out, const struct json_value *config)
{
	const struct json_value *v = json_get(config, "unk_token");

	if (v && v->type == JSON_OBJECT)
		v = json_get(v, "content");
	if (v && v->type == JSON_STRING)
		str_add_json(out, v->string, v->len);
	else
		str_adds(out, "\"<unk>\"");
}

/* The text of a row, with its words replaced. */
static void
expand(struct str *out, const struct class_row *row, const struct json_value *config)
{
	bool space = truth(config, "add_prefix_space", row->space),
	     legacy = truth(config, "legacy", false);
	const struct {
		const char *word, *text;
	} words[] = {
		{ "@space", space ? "true" : "false" },
		{ "@strip", space ? "1" : "0" },
		{ "@first", space ? "\"first\"" : "\"never\"" },
		{ "@scheme",
		    !space       ? "\"never\""
			: legacy ? "\"always\""
				 : "\"first\"" },
		{ "@unk", NULL },
	};

	for (const char *s = row->members; *s; s++) {
		const char *end = s;

		for (size_t i = 0; i < sizeof words / sizeof *words && end == s; i++) {
			size_t n = strlen(words[i].word);

			if (strncmp(s, words[i].word, n) != 0)
				continue;
			end = s + n;
			if (words[i].text)
				str_adds(out, words[i].text);
			else
				add_unk(out, config);
		}
		if (end == s)
			str_addc(out, *s);
		else
			s = end - 1;
	}
}

/* An object with the members of both: of two of one name the last counts. out->item is the
 * caller's. */
static struct json_value
with_members(const struct json_value *v, const struct json_value *more)
{
	struct json_value out = *v;

	out.len = v->len + more->len;
	out.item = mem_alloc(out.len, sizeof *out.item);
	memcpy(out.item, v->item, v->len * sizeof *v->item);
	memcpy(out.item + v->len, more->item, more->len * sizeof *more->item);
	return out;
}

/* The file with the members of a row. */
static int
rebuild(
    struct hf_reading *r, const struct class_row *row, const struct json_value *root, struct err *e)
{
	const struct json_value *made;
	struct str text = { 0 };

	str_adds(&text, "[");
	expand(&text, row, hf_config(&r->configs, TOKENIZER_CONFIG));
	str_addf(&text, ", %s]", row->tokens);
	r->class_tree = json_parse(text.buf, text.len, row->name, e);
	str_release(&text);
	if (!r->class_tree)
		return -1;
	made = json_root(r->class_tree)->item;
	r->root = with_members(root, &made[0]);
	r->own_model = with_members(json_get(root, "model"), json_get(&made[0], "model"));
	for (size_t i = 0; i < r->root.len; i++)
		if (!strcmp(r->root.item[i].key, "model")) {
			r->root.item[i].item = r->own_model.item;
			r->root.item[i].len = r->own_model.len;
		}
	r->class_tokens = &made[1];
	r->class_bos = row->bos;
	r->configs.used[TOKENIZER_CONFIG] = r->configs.used[MODEL_CONFIG] = true;
	return 0;
}

/* What the configs say and the class does not look at. */
static void
add_notes(struct tokenizer *t, const struct hf_configs *c, const struct class_row *row)
{
	static const char *const ignored[] = { "add_bos_token", "add_eos_token",
		"add_prefix_space" };
	const struct json_value *config = hf_config(c, TOKENIZER_CONFIG);

	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
		const struct json_value *v = json_get(config, ignored[i]);

		if (v && v->type == JSON_BOOL &&
		    (i < 2 || !row->members || !strstr(row->members, "@")))
			str_addf(&t->notes,
			    "%s/%s: \"%s\" is ignored, as by transformers 5: %s decides\n", c->dir,
			    hf_config_name(TOKENIZER_CONFIG), ignored[i],
			    row->bos ? row->name : "tokenizer.json");
	}
}

/* The classes above build a BPE alone. */
int
hf_class(struct hf_reading *r, struct tokenizer *t, const struct json_value *root, struct err *e)
{
	const struct json_value *vocab = json_get(json_get(root, "model"), "vocab");
	const struct class_row *row = choose(t, &r->configs, root);

	r->root = *root;
	add_notes(t, &r->configs, row);
	if (!row->members)
		return 0;
	if (!vocab || vocab->type != JSON_OBJECT) {
		str_addf(&t->notes, "%s: the class '%s' is for a BPE: tokenizer.json is followed\n",
		    r->configs.dir, row->name);
		return 0;
	}
	return rebuild(r, row, root, e);
}

/* The generic class has no tokens of its own: they are the model's. */
int
hf_class_habits(
    struct hf_class_habits *h, struct tokenizer *t, const struct hf_configs *c, struct err *e)
{
	const struct class_row *row = choose(t, c, NULL);

	h->bos = row->bos;
	h->tokens = row->tokens ? json_parse(row->tokens, strlen(row->tokens), row->name, e) : NULL;
	return row->tokens && !h->tokens ? -1 : 0;
}

/* Without a class nothing is its own. */
void
hf_class_release(struct hf_reading *r)
{
	if (!r->class_tree)
		return;
	free(r->root.item);
	free(r->own_model.item);
	json_free(r->class_tree);
}
