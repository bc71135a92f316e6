/*
 * options.c - the option table of mtrain
 *
 * Rows are those of option_list.h. Options of other programs that mtrain does not have are in
 * foreign_list.h.
 */
#include "lib/model/hardware.h"
#include "train/config/options.h"
#include "train/watch/stop.h"

#include <math.h>

/* clang-format off */
#define S struct train_options
/* The tag of a row says what ranks have in common of it. */
#define ROW(kind, ...) ROW_##kind(__VA_ARGS__),
#define ROW_OPT(on, n, t, f, ...) \
	{ .name = n, .type = t, .off = offsetof(S, f), .tag = AGREE_TAG(AGREE_##on), __VA_ARGS__ }
#define ROW_RANGE(on, n, f, lo, hi, d, ...) \
	ROW_OPT(on, n, OPT_INT, f, .min = lo, .max = hi, .def = d, .help = __VA_ARGS__)
#define ROW_INT(on, n, f, lo, d, ...) ROW_RANGE(on, n, f, lo, 1e15, d, __VA_ARGS__)
#define ROW_NUM(on, n, f, lo, hi, d, ...) \
	ROW_OPT(on, n, OPT_NUMBER, f, .min = lo, .max = hi, .def = d, .help = __VA_ARGS__)
#define ROW_FLAG(on, n, f, ...) ROW_OPT(on, n, OPT_FLAG, f, .help = __VA_ARGS__)
#define ROW_UNFLAG(on, n, f, ...) ROW_OPT(on, n, OPT_UNFLAG, f, .help = __VA_ARGS__)
#define ROW_STRING(on, n, f, u, d, ...) \
	ROW_OPT(on, n, OPT_STRING, f, .unit = u, .def = d, .help = __VA_ARGS__)
#define ROW_LETTER(on, n, f, l, u, ...) \
	ROW_OPT(on, n, OPT_STRING, f, .letter = l, .unit = u, .help = __VA_ARGS__)
#define ROW_LIST(on, n, f, u, ...) ROW_OPT(on, n, OPT_LIST, f, .unit = u, .help = __VA_ARGS__)
#define ROW_CHOICE(on, n, f, c, d, ...) \
	ROW_OPT(on, n, OPT_CHOICE, f, .choices = c, .def = d, .help = __VA_ARGS__)
#define ROW_INT_OF ROW_INT
#define ROW_NUM_OF ROW_NUM
#define ROW_FLAG_OF ROW_FLAG
#define ROW_STRING_OF ROW_STRING
#define ROW_LIST_OF ROW_LIST
#define ROW_CHOICE_OF ROW_CHOICE
#define ROW_GROUP(h) { .type = OPT_GROUP, .help = h }
#define CORPORA "[WEIGHT] PREFIX"
/* clang-format on */

const char *const mtrain_attention_backends[] = { "auto", "fused", "flash", "unfused", "local",
	"hopper", NULL };
const char *const mtrain_backends[] = { "auto", "cpu", "cuda", NULL };

static const char *const muon_precisions[] = { "medium", NULL };
static const char *const muon_tp_modes[] = { "duplicated", "distributed", NULL };
static const char *const muon_scalar_optimizers[] = { "adam", NULL };
static const char *const timing_options[] = { "max", "minmax", "all", NULL };
static const char *const dataloaders[] = { "single", "cyclic", NULL };
static const char *const tokenizer_words[] = { "PretrainedFromHF", "HuggingFaceTokenizer",
	"HFTokenizer", "HuggingFaceTokenizer", NULL };
static const char *const data_changes[] = { "refuse", "restart", "exclude-seen", "mask", NULL };
static const char *const loss_pers[] = { "token", "document", NULL };
static const char *const eval_add_boses[] = { "auto", "yes", "no", NULL };
static const char *const loss_masks[] = { "use", "ignore", NULL };

const struct opt mtrain_opts[] = {
	RUN_OPTS(S, run),
	TRAIN_OPTIONS(ROW) OPT_END,
};
