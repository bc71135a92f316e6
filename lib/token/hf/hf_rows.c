/*
 * hf_rows.c - the classes of transformers: which one a directory's configs name, and what it builds
 *
 * Source: transformers 5.23, models/auto/tokenization_auto.py and the tokenization files of the
 * models.
 */
#include "lib/token/hf/hf_rows.h"

#include <stdio.h>
#include <string.h>

/* Members of the file; a word after @ is replaced by a value from the configs (hf_class.c). */
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
#define QWEN35_PATTERN \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}|" \
	" " \
	"?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*" \
	"|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define BYTE_MODEL MODEL("null", "false", "false")
#define SPLIT_BYTES(pattern) \
	"{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", " \
	"\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}, " \
	"\"behavior\": \"Isolated\", \"invert\": false}, " BYTE_LEVEL( \
	    "false") "]}, " BYTES_DECODER ", " BYTE_MODEL "}"
#define ENDOFTEXT "<|endoftext|>"
#define TOKENS(unk, bos, eos) \
	"\"unk_token\": \"" unk "\", \"bos_token\": " bos ", \"eos_token\": \"" eos "\""

#define QWEN2_TOKENS TOKENS(ENDOFTEXT, "null", ENDOFTEXT) ", \"pad_token\": \"" ENDOFTEXT "\""
#define GPT2_MEMBERS \
	"{\"normalizer\": null, \"pre_tokenizer\": " BYTE_LEVEL("true") ", " BYTES_DECODER \
									", " BYTE_MODEL "}"
#define GPT2_TOKENS "{" TOKENS(ENDOFTEXT, "\"" ENDOFTEXT "\"", ENDOFTEXT) "}"
#define WORDS \
	"{\"type\": \"Metaspace\", \"replacement\": \"\u2581\", \"prepend_scheme\": " \
	"\"always\", \"split\": true}"

static const struct class_row rows[] = {
	{ "LlamaTokenizer", " idefics idefics2 ",
	    "{" METASPACE("@scheme") ", " MARKED_DECODER(STRIP("@strip")) ", " MODEL(
		"null", "true", "true") "}",
	    "{" TOKENS("<unk>", "\"<s>\"", "</s>") "}", .space = true, .switches = true,
	    .old_bos = true, .anew = true },
	{ "CodeLlamaTokenizer", " code_llama ",
	    "{" METASPACE("@first") ", " MARKED_DECODER(STRIP("1")) ", " MODEL(
		"@unk", "true", "true") "}",
	    "{" TOKENS(
		"<unk>", "\"<s>\"", "</s>") ", \"model_specific_special_tokens\": "
					    "[\"\u2581<PRE>\", \"\u2581<MID>\", \"\u2581<SUF>\", "
					    "\"\u2581<EOT>\", \"<FILL_ME>\"]}",
	    .space = true, .bos = true, .switches = true, .old_bos = true,
	    .old_tokens = "{" TOKENS("<unk>", "\"<s>\"",
		"</s>") ", \"old_special_tokens\": "
			"[\"\u2581<PRE>\", \"\u2581<MID>\", \"\u2581<SUF>\", \"\u2581<EOT>\"]}" },
	{ "GemmaTokenizer",
	    " diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
	    "shieldgemma2 t5gemma zaya ",
	    "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
	    "\"content\": \"\u2581\"}, "
	    "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, "
	    "\"behavior\": \"MergedWithPrevious\", "
	    "\"invert\": false}, " MARKED_DECODER("") ", " MODEL("@unk", "true", "true") "}",
	    "{" TOKENS("<unk>", "\"<bos>\"",
		"<eos>") ", \"pad_token\": \"<pad>\", \"mask_token\": \"<mask>\"}",
	    .switches = true, .old_bos = true,
	    .old_tokens = "{" TOKENS("<unk>", "\"<bos>\"", "<eos>") ", \"pad_token\": \"<pad>\"}" },
	{ "GPT2Tokenizer",
	    " blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip "
	    "instructblipvideo "
	    "jais2 opt phi starcoder2 ",
	    GPT2_MEMBERS, GPT2_TOKENS, .pair = true },
	{ "CodeGenTokenizer", "", GPT2_MEMBERS, GPT2_TOKENS, .pair = true },
	{ "RobertaTokenizer",
	    " bart bridgetower clap data2vec-text florence2 ibert led lilt longformer mega mra mvp "
	    "roberta roberta-prelayernorm ",
	    GPT2_MEMBERS,
	    "{" TOKENS("<unk>", "\"<s>\"", "</s>") ", \"sep_token\": \"</s>\", \"cls_token\": "
						   "\"<s>\", \"pad_token\": \"<pad>\", "
						   "\"mask_token\": \"<mask>\"}",
	    .pair = true, .first = "cls_token", .last = "sep_token" },
	{ "T5Tokenizer", " mt5 musicgen musicgen_melody switch_transformers t5 ",
	    "{\"normalizer\": @precompiled, \"pre_tokenizer\": {\"type\": \"Sequence\", "
	    "\"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, " WORDS "]}, \"decoder\": " WORDS
	    ", \"model\": {\"unk_id\": 2, \"byte_fallback\": false}}",
	    "{\"unk_token\": \"<unk>\", \"eos_token\": \"</s>\", \"pad_token\": \"<pad>\", "
	    "\"extra_special_tokens\": [@extra_ids]}",
	    .unigram = true, .last = "eos_token", .anew = true,
	    .old_tokens = "{\"unk_token\": \"<unk>\", \"eos_token\": \"</s>\", \"pad_token\": "
			  "\"<pad>\", \"old_special_tokens\": [@old_ids]}" },
	{ "Qwen2Tokenizer",
	    " audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl "
	    "lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl "
	    "qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe "
	    "qwen3_vl qwen3_vl_moe vibevoice ",
	    SPLIT_BYTES(QWEN2_PATTERN), "{" QWEN2_TOKENS "}", .pair = true },
	{ "Qwen3_5Tokenizer", " qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp ",
	    SPLIT_BYTES(QWEN35_PATTERN), "{" QWEN2_TOKENS "}" },
	{ "GPTNeoXTokenizer", " falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm ",
	    "{\"normalizer\": {\"type\": \"NFC\"}, \"post_processor\": null, "
	    "\"pre_tokenizer\": " BYTE_LEVEL("true") ", " BYTES_DECODER ", " BYTE_MODEL "}",
	    "{" TOKENS(
		ENDOFTEXT, "\"" ENDOFTEXT "\"", ENDOFTEXT) ", \"pad_token\": \"<|padding|>\"}",
	    .pair = true, .switches = true,
	    .old_tokens = "{" TOKENS(ENDOFTEXT, "\"" ENDOFTEXT "\"", ENDOFTEXT) "}" },
};

/* Names of transformers for the same classes. */
static const char *const aliases[][2] = {
	{ "BartTokenizer", "RobertaTokenizer" },
	{ "LEDTokenizer", "RobertaTokenizer" },
	{ "MvpTokenizer", "RobertaTokenizer" },
	{ "LongformerTokenizer", "RobertaTokenizer" },
};

/* Types whose class is the generic one, even if their configs name another. */
const struct class_row hf_generic_row = { "TokenizersBackend",
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

/* Classes that rebuild members, but are not supported here, and their types. transformers takes
 * every other name for the generic class. */
static const char unbuilt[] =
    " AlbertTokenizer BarthezTokenizer BartphoTokenizer BertGenerationTokenizer "
    "BertJapaneseTokenizer BertTokenizer BertweetTokenizer BigBirdTokenizer "
    "BioGptTokenizer BlenderbotSmallTokenizer BlenderbotTokenizer ByT5Tokenizer "
    "CLIPTokenizer CTRLTokenizer CamembertTokenizer CanineTokenizer ClvpTokenizer "
    "CohereTokenizer ConvBertTokenizer CpmAntTokenizer CpmTokenizer "
    "DPRContextEncoderTokenizer DPRQuestionEncoderTokenizer DPRReaderTokenizer "
    "DebertaTokenizer DebertaV2Tokenizer DiaTokenizer DistilBertTokenizer "
    "EsmTokenizer EsmcTokenizer FNetTokenizer FSMTTokenizer "
    "FastSpeech2ConformerTokenizer FlaubertTokenizer FunnelTokenizer "
    "GPTNeoXJapaneseTokenizer GPTSw3Tokenizer HerbertTokenizer LasrTokenizer "
    "LayoutLMv2Tokenizer LayoutLMv3Tokenizer LayoutXLMTokenizer LukeTokenizer "
    "LxmertTokenizer M2M100Tokenizer MBart50Tokenizer MBartTokenizer MLukeTokenizer "
    "MPNetTokenizer MarianTokenizer MarkupLMTokenizer MgpstrTokenizer "
    "MobileBertTokenizer MyT5Tokenizer NllbTokenizer NougatTokenizer "
    "OpenAIGPTTokenizer PLBartTokenizer ParakeetTokenizer PegasusTokenizer "
    "PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer ProphetNetTokenizer "
    "ReformerTokenizer RemBertTokenizer RoCBertTokenizer RoFormerTokenizer "
    "SeamlessM4TTokenizer Siglip2Tokenizer SiglipTokenizer Speech2TextTokenizer "
    "SpeechT5Tokenizer SplinterTokenizer SqueezeBertTokenizer TapasTokenizer "
    "Tipsv2Tokenizer UdopTokenizer VideoPrismTokenizer VitsTokenizer "
    "Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer WhisperTokenizer XGLMTokenizer "
    "XLMRobertaTokenizer XLMTokenizer XLNetTokenizer ";
static const char unbuilt_types[] =
    " aimv2 albert align aya_vision bark barthez bartpho bert bert-generation "
    "bert-japanese bertweet big_bird biogpt blenderbot blenderbot-small blip bros "
    "byt5 camembert canine chinese_clip clip clipseg clvp cohere cohere2 convbert "
    "cpm cpmant ctrl data2vec-audio deberta deberta-v2 dia distilbert dpr electra "
    "ernie esm esmc esmfold2 flaubert flava fnet fsmt funnel git gpt-sw3 "
    "gpt_neox_japanese granite_speech5_ctc grounding-dino groupvit gte herbert "
    "hubert jina_embeddings_v3 lasr_ctc lasr_encoder layoutlm layoutlmv2 layoutlmv3 "
    "layoutxlm luke lxmert m2m_100 marian markuplm mbart mbart50 megatron-bert "
    "metaclip_2 mgp-str mluke mm-grounding-dino mobilebert mpnet myt5 "
    "nemotron3_5_asr nemotron_asr_streaming nezha nllb nllb-moe nomic_bert nougat "
    "omdet-turbo oneformer openai-gpt owlv2 owlvit parakeet_ctc parakeet_rnnt "
    "parakeet_tdt pegasus perceiver phobert plbart pp_formulanet prophetnet qdqbert "
    "rag realm reformer rembert retribert roc_bert roformer sam3 sam3_video "
    "seamless_m4t seamless_m4t_v2 siglip siglip2 speech_to_text speecht5 splinter "
    "squeezebert tapas tipsv2 trocr tvp udop unispeech unispeech-sat videoprism vilt "
    "visual_bert vits wav2vec2 wav2vec2-bert wav2vec2-conformer wav2vec2_phoneme "
    "whisper xclip xglm xlm xlm-roberta xlnet xmod yoso ";

/* Types of the rows above whose published configs name a wrong class. */
static const char misnamed[] =
    " qwen2 hyperclovax_vision_v2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp ";

/* Other names of the generic class. */
static const char generic_names[] =
    " TokenizersBackend PreTrainedTokenizer PythonBackend BloomTokenizer ";

enum { NUM_ROWS = sizeof rows / sizeof *rows };

/* --- the choice ------------------------------------------------------------------------------- */

/* A member that is a string, or NULL. */
static const char *
text_of(const struct json_value *v, const char *key)
{
	const struct json_value *m = json_get(v, key);

	return m && m->type == JSON_STRING ? m->string : NULL;
}

/* True when it is one of the words between blanks. */
static bool
listed(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words; n && (at = strstr(at, word)); at++)
		if (at > words && at[-1] == ' ' && at[n] == ' ')
			return true;
	return false;
}

/* True when a component contains such a string, at any depth. */
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

/* True when a component works on bytes. */
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

/* The class of a model type; NULL: unknown. */
static const struct class_row *
row_of_type(const char *type)
{
	if (listed(hf_generic_row.model_types, type))
		return &hf_generic_row;
	for (size_t i = 0; i < NUM_ROWS; i++)
		if (listed(rows[i].model_types, type))
			return &rows[i];
	return NULL;
}

/* The class of a name. One without a row counts as the generic one, which is noted; NULL when it
 * would have to be built. */
static const struct class_row *
row_of_name(struct tokenizer *t, const struct hf_configs *c, const char *name, enum hf_source from)
{
	static const char made[] = "it is taken for the generic class";
	static const char *const notes[] = {
		[HF_JSON] = "tokenizer.json is followed",
		[HF_PIECES] = made,
		[HF_PAIR] = made,
		[HF_RANKS] = "only \"add_bos_token\" and \"add_eos_token\" of the configs count",
	};

	for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
		if (!strcmp(aliases[i][0], name))
			name = aliases[i][1];
	for (size_t i = 0; i < NUM_ROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	if (notes[from] == made && listed(unbuilt, name))
		return NULL;
	if (!listed(generic_names, name))
		str_addf(&t->notes, "%s: unknown class '%s': %s\n", c->dir, name, notes[from]);
	return &hf_generic_row;
}

/* The class of configs that name none. vocab.json and merges.txt without a class are GPT-2's. */
static const struct class_row *
row_by_type(const char *type, enum hf_source from)
{
	const struct class_row *row = type ? row_of_type(type) : NULL;
	bool made = from == HF_PIECES || from == HF_PAIR;

	if (!row && made && type && listed(unbuilt_types, type))
		return NULL;
	if (!row && from == HF_PAIR && !type)
		return row_of_type("gpt2");
	return row ? row : &hf_generic_row;
}

/* The name of the class in a config, and in `name` without Fast. NULL: none. */
static const char *
class_name(const struct hf_configs *c, char *name, size_t size)
{
	const char *given = text_of(hf_config(c, TOKENIZER_CONFIG), "tokenizer_class");
	size_t n;

	if (!given)
		given = text_of(hf_config(c, MODEL_CONFIG), "tokenizer_class");
	n = given ? strlen(given) : 0;
	snprintf(name, size, "%.*s", (int)(n > 4 && !strcmp(given + n - 4, "Fast") ? n - 4 : n),
	    given ? given : "");
	return given;
}

/* Its tables of model types are not followed. */
const struct class_row *
hf_old_row(struct tokenizer *t, const struct hf_configs *c, struct err *e)
{
	const char *type = text_of(hf_config(c, MODEL_CONFIG), "model_type");
	char name[64];

	if (class_name(c, name, sizeof name))
		return row_of_name(t, c, name, HF_JSON);
	if (!type)
		return &hf_generic_row;
	err_set(e,
	    "%s: no \"tokenizer_class\", and --tokenizer-like transformers-4.57 does not go "
	    "by the model type '%.40s'",
	    c->dir, type);
	return NULL;
}

/* The rules of AutoTokenizer, in order. */
const struct class_row *
hf_row(struct tokenizer *t, const struct hf_configs *c, enum hf_source from,
    const struct json_value *root, struct err *e)
{
	const char *type = text_of(hf_config(c, MODEL_CONFIG), "model_type"), *given;
	const struct class_row *registered = type ? row_of_type(type) : NULL, *row;
	bool distrust = type && listed(misnamed, type);
	char name[64];

	given = class_name(c, name, sizeof name);
	if (given && !strcmp(name, "LlamaTokenizer") && !distrust && byte_level(root))
		return &hf_generic_row;
	if (given && (registered == &hf_generic_row || (distrust && registered)))
		return registered;
	row = given ? row_of_name(t, c, name, from) : row_by_type(type, from);
	if (!row)
		err_set(e, "%s: %s '%s' is supported only with a tokenizer.json", c->dir,
		    given ? "the class" : "a model of type", given ? given : type);
	return row;
}
