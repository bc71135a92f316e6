/*
 * options.c - the option tables of mtok's verbs; names are those of Megatron-LM's
 * preprocess_data.py and of spm_train
 *
 * One row per option gives parsing, help and manual. A list option takes several words or is given
 * several times. Rules between options are in encode_open and tokenizer_train_check. Options of the
 * Python tools that mtok does not have are in the table of refused ones, with what to do instead.
 */
#include "lib/token/options.h"
#include "tok/decode.h"
#include "tok/encoding.h"
#include "tok/files.h"
#include "tok/options.h"
#include "tok/train.h"

#include <math.h>
#include <stddef.h>

static const char *const on_error_names[] = { "stop", "skip", NULL };

#define ONLY_MEASURES "it belongs to --find-optimal-num-workers and changes nothing without it"
#define NO_PADDING "ids do not depend on the padding of the vocabulary"

/* The option for the longest line, of every verb that reads documents. */
/* clang-format off */
#define MAX_DOCUMENT_BYTES \
	.min = 1, .max = 1099511627776, .def = "268435456", .unit = "BYTES", \
	.help = "a longer line is bad: it is skipped without being held in memory"
#define FORMAT_OPTS(FIELD) \
	{ .name = "format", .type = OPT_CHOICE, .off = FIELD(format), \
	  .choices = files_format_names, .def = "auto", \
	  .help = "how documents are written: auto is text for files named .txt or .md, with .gz " \
	  "or .zst after it or not, and JSON Lines for all others" }, \
	{ .name = "document-by", .type = OPT_CHOICE, .off = FIELD(document_by), \
	  .choices = files_document_by_names, .def = "file", \
	  .help = "what a document of text is: a file, what lies between lines of blanks and " \
	  "tabs alone, or a line" }, \
	{ .name = "document-separator", .type = OPT_STRING, .off = FIELD(document_separator), \
	  .unit = "LINE", \
	  .help = "in text, documents end at lines that are LINE" }
#define ENCODE(field) offsetof(struct encode_config, field)
#define INPUT_OPTS \
	{ .type = OPT_GROUP, .help = "Input" }, \
	{ .name = "input", .type = OPT_LIST, .off = ENCODE(input), .unit = "FILE", \
	  .help = "JSON Lines or text, plain, gzip or zstd, like the operands; a directory " \
	  "stands for its files, - is standard input, and a quoted pattern stands for its " \
	  "files in their order" }, \
	{ .name = "files-from", .type = OPT_STRING, .off = ENCODE(files_from), .unit = "LIST", \
	  .help = "read more input files from LIST, one per line or NUL-ended; - is standard " \
	  "input" }, \
	{ .name = "part", .type = OPT_STRING, .off = ENCODE(part), .unit = "I/N", \
	  .help = "take the Ith of N equal parts of the input, for job I of an array" }, \
	FORMAT_OPTS(ENCODE), \
	{ .name = "json-keys", .type = OPT_LIST, .off = ENCODE(json_keys), .unit = "KEY", \
	  .def = "text", \
	  .help = "members to take; each becomes a separate dataset" }, \
	{ .name = "mask-key", .type = OPT_STRING, .off = ENCODE(chat.mask_key), .unit = "KEY", \
	  .help = "the member of --json-keys is a list of ids, and KEY a list of as many 0 and " \
	  "1: the tokens that are trained" }, \
	{ .name = "segments", .type = OPT_FLAG, .off = ENCODE(chat.segments), \
	  .help = "the member is a list of {\"text\": STRING, \"train\": BOOL}" }, \
	{ .name = "spans-key", .type = OPT_STRING, .off = ENCODE(chat.spans_key), .unit = "KEY", \
	  .help = "the member is a text, and KEY a list of [BEGIN, END]: the characters that are " \
	  "trained" }, \
	{ .name = "chat-format", .type = OPT_STRING, .off = ENCODE(chat.format), .unit = "FILE", \
	  .help = "the member is a list of messages, and FILE says what stands before and after " \
	  "each role" }, \
	{ .name = "chat-ignore", .type = OPT_LIST, .off = ENCODE(chat.ignore), .unit = "MEMBER", \
	  .help = "with --chat-format: members of a message to leave out" }, \
	{ .name = "allow-control", .type = OPT_FLAG, .off = ENCODE(chat.allow_control), \
	  .help = "with --chat-format: contents may hold the strings of special tokens" }, \
	{ .name = "workers", .type = OPT_INT, .off = ENCODE(workers), .min = 0, .max = 4096, \
	  .def = "0", .unit = "N", \
	  .help = "threads that encode; 0 means one per usable core; the output does not depend " \
	  "on it" }, \
	{ .name = "on-error", .type = OPT_CHOICE, .off = ENCODE(on_error), \
	  .choices = on_error_names, .def = "stop", \
	  .help = "at a bad line: stop the run, or skip it and count it by class" }, \
	{ .name = "max-document-bytes", .type = OPT_INT, .off = ENCODE(max_document_bytes), \
	  MAX_DOCUMENT_BYTES }, \
	{ .name = "split-sentences", .type = OPT_FLAG, .off = ENCODE(split_sentences), \
	  .help = "cut texts into sentences by rule; each is a sequence, the text is the " \
	  "document" }, \
	{ .name = "keep-newlines", .type = OPT_FLAG, .off = ENCODE(keep_newlines), \
	  .help = "with --split-sentences: line feeds between sentences stay at the end of the " \
	  "one before" }
/* clang-format on */

const struct opt encode_opts[] = {
	INPUT_OPTS,
	TOKENIZER_OPTS,
	{ .type = OPT_GROUP, .help = "Output" },
	{ .name = "output-prefix",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = ENCODE(output_prefix),
	    .unit = "PREFIX",
	    .help = "write PREFIX_KEY_document.bin, .idx and .json" },
	{ .name = "append-eod",
	    .type = OPT_FLAG,
	    .off = ENCODE(append_eod),
	    .help = "put the end-of-document id after every document that is not empty" },
	{ .name = "eod-id",
	    .type = OPT_INT,
	    .off = ENCODE(eod_id),
	    .min = -1,
	    .max = 2147483646,
	    .def = "-1",
	    .unit = "ID",
	    .help = "end-of-document id; -1 means the tokenizer's own" },
	{ .name = "eod-token",
	    .type = OPT_STRING,
	    .off = ENCODE(eod_token),
	    .unit = "PIECE",
	    .help = "end-of-document id by its piece, such as <|endoftext|>" },
	{ .name = "prepend-bos",
	    .type = OPT_FLAG,
	    .off = ENCODE(prepend_bos),
	    .help = "put the beginning-of-document id before every document that is not empty" },
	{ .name = "error-list",
	    .type = OPT_STRING,
	    .off = ENCODE(error_list),
	    .unit = "FILE",
	    .help = "with --on-error skip: list the skipped lines here rather than in "
		    "PREFIX.errors.tsv" },
	{ .name = "resume",
	    .type = OPT_FLAG,
	    .off = ENCODE(resume),
	    .help = "leave what a later run with --resume can continue from, and continue from "
		    "what an earlier one left" },
	{ .name = "resume-interval",
	    .type = OPT_NUMBER,
	    .off = ENCODE(resume_interval),
	    .min = 0,
	    .max = 86400,
	    .def = "10",
	    .unit = "SECONDS",
	    .help = "with --resume: record the progress of the run this often" },
	{ .name = "json",
	    .type = OPT_FLAG,
	    .off = ENCODE(json),
	    .help = "print the counts of the run as a line of JSON" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = ENCODE(force),
	    .help = "replace a dataset that exists" },
	{ .name = "log-interval",
	    .type = OPT_INT,
	    .off = ENCODE(log_interval),
	    .min = 0,
	    .max = INFINITY,
	    .def = "0",
	    .unit = "N",
	    .help = "note the speed every N documents on standard error; 0 means never" },
	{ .type = OPT_GROUP, .help = "Accepted, no effect" },
	{ .name = "dataset-impl",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "NAME",
	    .help = "datasets are always mapped to memory" },
	{ .name = "chunk-size",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "N",
	    .help = "work is dealt out by bytes" },
	{ .name = "tokenizer-hf-use-fast",
	    .type = OPT_NOTE,
	    .help = "tokenizer.json is the fast tokenizer" },
	{ .name = "tokenizer-hf-include-special-tokens",
	    .type = OPT_NOTE,
	    .help = "they are included by default" },
	{ .name = "trust-remote-code", .type = OPT_NOTE, .help = "no code is ever loaded" },
	{ .name = "lang",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "NAME",
	    .help = "the rules of --split-sentences are those of all languages" },
	{ .name = "partitions",
	    .type = OPT_NOTE,
	    .unit = "N",
	    .def = "1",
	    .help = "one run gives one dataset" },
	{ .name = "vocab-extra-ids",
	    .type = OPT_NOTE,
	    .unit = "N",
	    .def = "0",
	    .help = "pieces come from the tokenizer's files" },
	{ .name = "keep-sequential-samples",
	    .type = OPT_NOTE,
	    .help = "the order of the lines is always kept" },
	{ .name = "workers-to-check",
	    .type = OPT_NOTE,
	    .max = 2,
	    .unit = "N",
	    .help = ONLY_MEASURES },
	{ .name = "max-documents", .type = OPT_NOTE, .max = 1, .unit = "N", .help = ONLY_MEASURES },
	{ .name = "performance-dir",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "DIR",
	    .help = ONLY_MEASURES },
	{ .name = "padded-vocab-size",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "N",
	    .help = NO_PADDING },
	{ .name = "no-pad-vocab-size", .type = OPT_NOTE, .help = NO_PADDING },
	{ .name = "make-vocab-size-divisible-by",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "N",
	    .help = NO_PADDING },
	{ .name = "chat-template",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "TEXT",
	    .help = "chat templates are not applied to texts, as by preprocess_data.py" },
	{ .name = "null-tokenizer-pad-id",
	    .type = OPT_NOTE,
	    .max = 1,
	    .unit = "N",
	    .help = "datasets have no padding" },
	{ .name = "use-gigatoken",
	    .type = OPT_NOTE,
	    .help = "ids do not depend on the program that finds them" },
	OPT_END,
};

const struct opt count_opts[] = {
	INPUT_OPTS,
	TOKENIZER_OPTS,
	{ .name = "compare",
	    .type = OPT_LIST,
	    .off = ENCODE(compare),
	    .unit = "FILE",
	    .help = "tokenizers to count with in the same pass, each given by its file" },
	{ .type = OPT_GROUP, .help = "Output" },
	{ .name = "histogram",
	    .type = OPT_FLAG,
	    .off = ENCODE(histogram),
	    .help = "print a histogram of document lengths instead" },
	{ .name = "json",
	    .type = OPT_FLAG,
	    .off = ENCODE(json),
	    .help = "print JSON Lines, counts and histogram together" },
	OPT_END,
};

const struct opt decode_opts[] = {
	{ .type = OPT_GROUP, .help = "Input" },
	{ .name = "ids",
	    .type = OPT_LIST,
	    .off = offsetof(struct decode_config, ids),
	    .unit = "ID",
	    .help = "decode these ids as one document" },
	TOKENIZER_OPTS,
	{ .type = OPT_GROUP, .help = "Output" },
	{ .name = "json",
	    .type = OPT_FLAG,
	    .off = offsetof(struct decode_config, json),
	    .help =
		"write JSON Lines with a member 'text'; bytes that are not UTF-8 become U+FFFD" },
	{ .name = "skip-special",
	    .type = OPT_FLAG,
	    .off = offsetof(struct decode_config, skip_special),
	    .help = "leave out the text of special ids" },
	OPT_END,
};

const struct opt info_opts[] = {
	TOKENIZER_OPTS,
	{ .name = "check",
	    .type = OPT_STRING,
	    .off = offsetof(struct info_config, check),
	    .unit = "FILE",
	    .help = "compare with ids that another program gave: JSON Lines with \"text\" and "
		    "\"ids\"" },
	{ .type = OPT_GROUP, .help = "Output" },
	{ .name = "pieces",
	    .type = OPT_FLAG,
	    .off = offsetof(struct info_config, pieces),
	    .help = "list every piece: id, text as a JSON string, score, type" },
	{ .name = "json",
	    .type = OPT_FLAG,
	    .off = offsetof(struct info_config, json),
	    .help = "print a line of JSON" },
	OPT_END,
};

#define TRAIN(field) offsetof(struct train_config, field)

const struct opt train_opts[] = {
	{ .type = OPT_GROUP, .help = "Input" },
	{ .name = "input",
	    .type = OPT_LIST,
	    .off = TRAIN(input),
	    .unit = "FILE",
	    .help =
		"JSON Lines or text, plain, gzip or zstd, like the operands; a directory stands "
		"for its files, - is standard input, and a quoted pattern stands for its files in "
		"their order" },
	{ .name = "files-from",
	    .type = OPT_STRING,
	    .off = TRAIN(files_from),
	    .unit = "LIST",
	    .help = "read more input files from LIST, one per line or NUL-ended; - is standard "
		    "input" },
	FORMAT_OPTS(TRAIN),
	{ .name = "json-keys",
	    .type = OPT_LIST,
	    .off = TRAIN(json_keys),
	    .unit = "KEY",
	    .def = "text",
	    .help = "members to train on" },
	{ .name = "on-error",
	    .type = OPT_CHOICE,
	    .off = TRAIN(on_error),
	    .choices = on_error_names,
	    .def = "stop",
	    .help = "at a bad line: stop the run, or skip it" },
	{ .name = "max-document-bytes",
	    .type = OPT_INT,
	    .off = TRAIN(max_document_bytes),
	    MAX_DOCUMENT_BYTES },
	{ .name = "max-sentence-length",
	    .type = OPT_INT,
	    .off = TRAIN(max_sentence_length),
	    .min = 16,
	    .max = 1073741824,
	    .def = "4192",
	    .unit = "BYTES",
	    .help = "cut longer lines" },
	{ .name = "input-sentence-size",
	    .type = OPT_INT,
	    .off = TRAIN(input_sentence_size),
	    .min = 0,
	    .max = INFINITY,
	    .def = "0",
	    .unit = "N",
	    .help = "train on a sample of N lines; 0 means all" },
	{ .name = "no-shuffle-input-sentence",
	    .type = OPT_FLAG,
	    .off = TRAIN(no_shuffle_input_sentence),
	    .help = "take the first N lines as the sample" },
	{ .name = "train-extremely-large-corpus",
	    .type = OPT_FLAG,
	    .off = TRAIN(train_extremely_large_corpus),
	    .help = "count in 64 bits" },
	{ .type = OPT_GROUP, .help = "Model" },
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = TRAIN(output),
	    .unit = "MODEL",
	    .help = "file to write" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = TRAIN(force),
	    .help = "replace a model that exists" },
	{ .name = "vocab-size",
	    .type = OPT_INT,
	    .off = TRAIN(vocab_size),
	    .min = 4,
	    .max = 1073741824,
	    .def = "8000",
	    .unit = "N",
	    .help = "number of pieces" },
	{ .name = "model-type",
	    .type = OPT_CHOICE,
	    .off = TRAIN(model_type),
	    .choices = train_model_types,
	    .def = "unigram",
	    .help = "how pieces are found and how text is cut into them" },
	{ .name = "character-coverage",
	    .type = OPT_NUMBER,
	    .off = TRAIN(character_coverage),
	    .min = 0.5,
	    .max = 1,
	    .def = "0.9995",
	    .unit = "SHARE",
	    .help = "share of the characters that become pieces" },
	{ .name = "sentencepiece-defaults",
	    .type = OPT_FLAG,
	    .off = TRAIN(sentencepiece_defaults),
	    .help = "begin with the defaults of spm_train: --normalization-rule-name nmt_nfkc and "
		    "none of the next four options, which else are given by default, so that "
		    "decoding returns any text" },
	{ .name = "byte-fallback",
	    .type = OPT_FLAG,
	    .off = TRAIN(byte_fallback),
	    .help = "unknown characters become bytes" },
	{ .name = "keep-extra-whitespaces",
	    .type = OPT_FLAG,
	    .off = TRAIN(keep_extra_whitespaces),
	    .help = "keep runs of spaces" },
	{ .name = "allow-whitespace-only-pieces",
	    .type = OPT_FLAG,
	    .off = TRAIN(allow_whitespace_only_pieces),
	    .help = "runs of spaces may be pieces" },
	{ .name = "no-add-dummy-prefix",
	    .type = OPT_FLAG,
	    .off = TRAIN(no_add_dummy_prefix),
	    .help = "put no space before the text" },
	{ .name = "split-digits",
	    .type = OPT_FLAG,
	    .off = TRAIN(split_digits),
	    .help = "every digit is a separate piece" },
	{ .name = "user-defined-symbols",
	    .type = OPT_LIST,
	    .off = TRAIN(user_defined_symbols),
	    .unit = "TEXT",
	    .help = "strings that are always one piece" },
	{ .name = "control-symbols",
	    .type = OPT_LIST,
	    .off = TRAIN(control_symbols),
	    .unit = "NAME",
	    .help = "pieces that no text matches" },
	{ .name = "normalization-rule-name",
	    .type = OPT_CHOICE,
	    .off = TRAIN(normalization_rule_name),
	    .choices = train_normalizations,
	    .def = "identity",
	    .help = "normalization of the text" },
	{ .name = "no-split-by-whitespace",
	    .type = OPT_FLAG,
	    .off = TRAIN(no_split_by_whitespace),
	    .help = "pieces may cross spaces" },
	{ .name = "no-split-by-number",
	    .type = OPT_FLAG,
	    .off = TRAIN(no_split_by_number),
	    .help = "pieces may cross from digits to letters" },
	{ .name = "treat-whitespace-as-suffix",
	    .type = OPT_FLAG,
	    .off = TRAIN(treat_whitespace_as_suffix),
	    .help = "the space belongs to the word before it" },
	{ .name = "no-split-by-unicode-script",
	    .type = OPT_FLAG,
	    .off = TRAIN(no_split_by_unicode_script),
	    .help = "pieces may cross scripts" },
	{ .name = "soft-vocab-limit",
	    .type = OPT_FLAG,
	    .off = TRAIN(hard_vocab_limit_off),
	    .help = "fewer pieces than requested are not an error" },
	{ .name = "max-sentencepiece-length",
	    .type = OPT_INT,
	    .off = TRAIN(max_sentencepiece_length),
	    .min = 1,
	    .max = 512,
	    .def = "16",
	    .unit = "CHARACTERS",
	    .help = "longest piece" },
	{ .name = "required-chars",
	    .type = OPT_STRING,
	    .off = TRAIN(required_chars),
	    .unit = "TEXT",
	    .help = "characters that become pieces whatever the coverage" },
	{ .name = "normalization-rule-tsv",
	    .type = OPT_STRING,
	    .off = TRAIN(normalization_rule_tsv),
	    .unit = "FILE",
	    .help = "custom normalization rules instead" },
	{ .name = "use-all-vocab",
	    .type = OPT_FLAG,
	    .off = TRAIN(use_all_vocab),
	    .help = "all words or characters are pieces, for --model-type word and char" },
	{ .name = "seed-sentencepiece-size",
	    .type = OPT_INT,
	    .off = TRAIN(seed_sentencepiece_size),
	    .min = 1,
	    .max = 1073741824,
	    .def = "1000000",
	    .unit = "N",
	    .help = "pieces that a unigram model begins with" },
	{ .name = "shrinking-factor",
	    .type = OPT_NUMBER,
	    .off = TRAIN(shrinking_factor),
	    .min = 0.01,
	    .max = 0.99,
	    .def = "0.75",
	    .unit = "SHARE",
	    .help = "pieces of a unigram model that each round keeps" },
	{ .name = "num-sub-iterations",
	    .type = OPT_INT,
	    .off = TRAIN(num_sub_iterations),
	    .min = 1,
	    .max = 100,
	    .def = "2",
	    .unit = "N",
	    .help = "rounds of expectation and maximization between two such" },
	{ .name = "unk-piece",
	    .type = OPT_STRING,
	    .off = TRAIN(unk_piece),
	    .unit = "TEXT",
	    .def = "<unk>",
	    .help = "the unknown piece" },
	{ .name = "bos-piece",
	    .type = OPT_STRING,
	    .off = TRAIN(bos_piece),
	    .unit = "TEXT",
	    .def = "<s>",
	    .help = "the beginning-of-document piece" },
	{ .name = "eos-piece",
	    .type = OPT_STRING,
	    .off = TRAIN(eos_piece),
	    .unit = "TEXT",
	    .def = "</s>",
	    .help = "the end-of-document piece" },
	{ .name = "pad-piece",
	    .type = OPT_STRING,
	    .off = TRAIN(pad_piece),
	    .unit = "TEXT",
	    .def = "<pad>",
	    .help = "the padding piece" },
	{ .name = "unk-surface",
	    .type = OPT_STRING,
	    .off = TRAIN(unk_surface),
	    .unit = "TEXT",
	    .help = "what decoding gives for the unknown piece; by default U+2047 between spaces" },
	{ .name = "unk-id",
	    .type = OPT_INT,
	    .off = TRAIN(unk_id),
	    .min = 0,
	    .max = 1073741823,
	    .def = "0",
	    .unit = "ID",
	    .help = "id of the unknown piece" },
	{ .name = "bos-id",
	    .type = OPT_INT,
	    .off = TRAIN(bos_id),
	    .min = -1,
	    .max = 1073741823,
	    .def = "1",
	    .unit = "ID",
	    .help = "id of the beginning-of-document piece; -1 means none" },
	{ .name = "eos-id",
	    .type = OPT_INT,
	    .off = TRAIN(eos_id),
	    .min = -1,
	    .max = 1073741823,
	    .def = "2",
	    .unit = "ID",
	    .help = "id of the end-of-document piece; -1 means none" },
	{ .name = "pad-id",
	    .type = OPT_INT,
	    .off = TRAIN(pad_id),
	    .min = -1,
	    .max = 1073741823,
	    .def = "-1",
	    .unit = "ID",
	    .help = "id of the padding piece; -1 means none" },
	{ .name = "workers",
	    .type = OPT_INT,
	    .off = TRAIN(workers),
	    .min = 1,
	    .max = 1024,
	    .def = "1",
	    .unit = "N",
	    .help = "threads; the scores of a unigram model may depend on it in the last digits" },
	OPT_END,
};

/* Each option of Megatron-LM's tools/preprocess_data.py, of this release or an earlier one, that is
 * not above: why, and what to do. Sorted. */
/* clang-format off */
static const struct opt_foreign encode_rows[] = {
	{ .name = "find-optimal-num-workers", .kind = FOREIGN_LACKS,
	  .why = "it measures on samples and writes no whole dataset; one worker a core is"
	         " the default" },
	{ .name = "force-system-message", .kind = FOREIGN_LACKS,
	  .why = "it is for chats with images, which are not tokenized here" },
	{ .name = "image-tag-type", .kind = FOREIGN_LACKS,
	  .why = "it is for chats with images, which are not tokenized here" },
	{ .name = "legacy-tokenizer", .kind = FOREIGN_LACKS,
	  .why = "ids are those of the present tokenizers; of the former, --prepend-bos is"
	         " Llama2Tokenizer's and --special-as-text GPT2BPETokenizer's" },
	{ .name = "no-tokenizer-sentencepiece-ignore-extra-whitespaces", .kind = FOREIGN_LACKS,
	  .why = "runs of blanks follow the model's own rule: those that mtok train makes keep"
	         " them, without --sentencepiece-defaults" },
	{ .name = "null-tokenizer-eod-id", .kind = FOREIGN_LACKS,
	  .why = "give --eod-id" },
	{ .name = "partitions", .kind = FOREIGN_LACKS,
	  .why = "one run gives one dataset; --workers is enough, and --part for many jobs" },
	{ .name = "tokenizer-hf-no-use-fast", .kind = FOREIGN_LACKS,
	  .why = "ids are those of the fast tokenizer, and the slow one's may differ: "
	         "leave it out if they need not" },
	{ .name = "tokenizer-metadata", .kind = FOREIGN_NOTE,
	  .why = "the files and --tokenizer-type determine the tokenizer" },
	{ .name = "tokenizer-prompt-format", .kind = FOREIGN_LACKS,
	  .why = "it is for chats with images, which are not tokenized here" },
	{ .name = "tokenizer-sentencepiece-legacy", .kind = FOREIGN_LACKS,
	  .why = "it adds special tokens outside the model: train a model that has them, "
	         "with --control-symbols" },
	{ .name = "tokenizer-special-tokens", .kind = FOREIGN_LACKS,
	  .why = "special tokens come from the tokenizer's files: add them there, such as "
	         "in additional_special_tokens of tokenizer_config.json" },
	{ .name = "vocab-extra-ids", .kind = FOREIGN_LACKS,
	  .why = "pieces come from the tokenizer's files: a model with that many more can "
	         "have them as added tokens" },
};
/* clang-format on */

const struct opt_foreigners encode_foreign = { .row = encode_rows,
	.count = sizeof encode_rows / sizeof *encode_rows };

/* Words of --input come first, then the operands, in their order. The pool owns the new list; the
 * words themselves are borrowed. */
void
options_add_operands(struct opt_list *input, struct mem_pool *pool, int argc, char **argv)
{
	const char **all = mem_pool_alloc(pool, (size_t)(input->count + argc) + 1, sizeof *all);

	for (int i = 0; i < input->count; i++)
		all[i] = input->item[i];
	for (int i = 0; i < argc; i++)
		all[input->count + i] = argv[i];
	input->item = all;
	input->count += argc;
}
