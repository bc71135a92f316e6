/* act_copies.h - activations straight into 8 bits are those of 16 bits and then 8, bit for bit, on
 * any backend */
#ifndef TESTS_GPU_ACT_COPIES_H
#define TESTS_GPU_ACT_COPIES_H

#include "lib/base/mem.h"
#include "tests/gpu/rig.h"

/* What is wanted: of y and of dx, copies, transposes, and to keep the result. */
struct act_copies_case {
	enum act_kind kind;
	int64_t rows, columns; /* of y */
	bool backward, y, kept, turned;
	enum dtype type, y_type, dx_type;
};

static const struct act_copies_case act_copies_cases[] = {
	{ ACT_SWIGLU, 20, 48, false, true, false, false, DTYPE_BF16, DTYPE_F8_E4M3, DTYPE_F8_E4M3 },
	{ ACT_SWIGLU, 272, 656, false, true, true, true, DTYPE_BF16, DTYPE_F8_E4M3, DTYPE_F8_E4M3 },
	{ ACT_GEGLU_TANH, 144, 128, false, true, false, true, DTYPE_F16, DTYPE_F8_E5M2,
	    DTYPE_F8_E4M3 },
	{ ACT_GELU_ERF, 128, 400, false, true, true, false, DTYPE_F32, DTYPE_F8_E4M3,
	    DTYPE_F8_E4M3 },
	{ ACT_SWIGLU, 16, 16, true, true, false, true, DTYPE_BF16, DTYPE_F8_E4M3, DTYPE_F8_E5M2 },
	{ ACT_SWIGLU, 272, 656, true, true, true, true, DTYPE_BF16, DTYPE_F8_E4M3, DTYPE_F8_E5M2 },
	{ ACT_SWIGLU, 1040, 1296, true, false, false, true, DTYPE_BF16, DTYPE_F8_E4M3,
	    DTYPE_F8_E4M3 },
	{ ACT_RELU2, 144, 272, true, true, false, true, DTYPE_BF16, DTYPE_F8_E4M3, DTYPE_F8_E5M2 },
	{ ACT_GELU_TANH, 272, 144, true, false, true, false, DTYPE_F16, DTYPE_F8_E4M3,
	    DTYPE_F8_E5M2 },
	{ ACT_GEGLU_TANH, 144, 80, true, true, true, true, DTYPE_F32, DTYPE_F8_E5M2,
	    DTYPE_F8_E4M3 },
};

/* A result on the device, its copies, and on the host what they became. */
struct act_result {
	struct quantise q;
	char *host[3];
	float amax;
};

/* That of y, or of the gradient. */
static inline struct act_result
act_result_new(const struct rig *r, const struct act_copies_case *c, bool gradient)
{
	int64_t columns =
	    c->columns * (gradient && (c->kind == ACT_SWIGLU || c->kind == ACT_GEGLU_TANH) ? 2 : 1);
	enum dtype type = gradient ? c->dx_type : c->y_type;
	struct act_result a = {
		.q = { .x = rig_tensor(r, true, tensor_2d(NULL, c->type, c->rows, columns), NULL),
		    .q = rig_tensor(r, true, tensor_2d(NULL, type, c->rows, columns), NULL),
		    .qt = rig_tensor(r, c->turned, tensor_2d(NULL, type, columns, c->rows), NULL),
		    .scale = rig_tensor(r, true, tensor_1d(NULL, DTYPE_F32, SCALE_ROW),
			gradient ? (float[SCALE_ROW]){ 1.0f / 300, 300 }
				 : (float[SCALE_ROW]){ 1.0f / 24, 24 }),
		    .amax = rig_tensor(r, true, tensor_1d(NULL, DTYPE_F32, 1), NULL) }
	};

	rig_sync(r);
	for (int i = 0; i < 3; i++)
		a.host[i] = mem_zalloc((size_t)(c->rows * columns), sizeof(float));
	return a;
}

static inline void
act_result_read(const struct rig *r, const struct act_copies_case *c, struct act_result *a)
{
	rig_take(r, a->q.x, c->kept ? a->host[0] : NULL);
	rig_take(r, a->q.q, a->host[1]);
	rig_take(r, a->q.qt, a->host[2]);
	rig_take(r, a->q.amax, &a->amax);
	rig_take(r, a->q.scale, NULL);
}

/* By one operation, or by those that it stands for. */
static inline void
act_copies_by(const struct rig *r, const struct act_copies_case *c, const void *in,
    struct act_result result[2], bool joined)
{
	int64_t wide = c->columns * (c->kind == ACT_SWIGLU || c->kind == ACT_GEGLU_TANH ? 2 : 1);
	struct act_copies a = {
		.x = rig_tensor(r, true, tensor_2d(NULL, c->type, c->rows, wide), in),
		.dy = rig_tensor(r, c->backward, tensor_2d(NULL, c->type, c->rows, c->columns), in),
		.y = c->y ? &result[0].q : NULL,
		.dx = c->backward ? &result[1].q : NULL,
	};
	struct tensor kept[2], none = { .data = NULL };

	for (int i = 0; i < 2; i++) {
		result[i] = act_result_new(r, c, i);
		kept[i] = result[i].q.x;
		if (joined && !c->kept)
			result[i].q.x.data = NULL;
	}
	if (joined)
		r->st->ops->act_copies(r->st, c->kind, &a);
	else if (c->backward)
		r->st->ops->act_bwd(r->st, c->kind,
		    &(struct act_grad){
			.dx = kept[1], .dy = a.dy, .x = a.x, .y = c->y ? kept[0] : none });
	else
		r->st->ops->act_fwd(r->st, c->kind, &kept[0], &a.x);
	for (int i = 0; i < 2; i++) {
		if (!joined && (i ? c->backward : c->y))
			r->st->ops->quantise(r->st, &result[i].q);
		result[i].q.x = kept[i];
		act_result_read(r, c, &result[i]);
	}
	rig_take(r, a.x, NULL);
	rig_take(r, a.dy, NULL);
}

/* Every case; says how many bytes differ. */
static inline void
test_act_copies(const struct backend *b)
{
	static const char *const what[] = { "y", "dx", "y, copied", "dx, copied", "y, turned",
		"dx, turned" };
	struct rig r = rig_open(b, DTYPE_BF16);

	for (size_t i = 0; i < sizeof act_copies_cases / sizeof *act_copies_cases; i++) {
		const struct act_copies_case *c = &act_copies_cases[i];
		int64_t count = c->rows * c->columns;
		float *in = mem_alloc((size_t)(2 * count), sizeof *in);
		char *x = mem_alloc((size_t)(2 * count), sizeof *in);
		struct act_result one[2], many[2];
		uint64_t state = i;

		for (int64_t k = 0; k < 2 * count; k++)
			in[k] = ((float)rig_random(&state) - 0x1p30f) * 0x1p-28f;
		dtype_convert(x, c->type, in, DTYPE_F32, 2 * count);
		act_copies_by(&r, c, x, one, true);
		act_copies_by(&r, c, x, many, false);
		for (int k = 0; k < 6; k++) {
			size_t bytes = (size_t)count * 4 * (k % 2 ? 2 : 1), differ = 0;

			if (k % 2 && c->kind != ACT_SWIGLU && c->kind != ACT_GEGLU_TANH)
				bytes /= 2;
			for (size_t n = 0; n < bytes; n++)
				differ += one[k % 2].host[k / 2][n] != many[k % 2].host[k / 2][n];
			check_count++;
			if (!differ)
				continue;
			check_failures++;
			fprintf(stderr, "activation case %zu: %zu bytes of %s differ\n", i, differ,
			    what[k]);
		}
		CHECK(one[0].amax == many[0].amax && one[1].amax == many[1].amax);
		CHECK(one[c->backward].amax > 0);
		for (int k = 0; k < 6; k++) {
			free(one[k % 2].host[k / 2]);
			free(many[k % 2].host[k / 2]);
		}
		free(in);
		free(x);
	}
	b->close(r.d);
	printf("acts: %ld failures so far\n", check_failures);
}

#endif
