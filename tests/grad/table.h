/* table.h - the operations that have a gradient: a test or a bench walks this list */
#ifndef TESTS_GRAD_TABLE_H
#define TESTS_GRAD_TABLE_H

#include "tests/grad/cases.h"
#include "tests/grad/expect.h"

static const struct op_test op_tests[] = {
	{ "gemm", gemm_declare, gemm_forward, gemm_backward, expect_gemm, gemm_cases },
	{ "norm", norm_declare, norm_forward, norm_backward, expect_norm, norm_cases },
	{ "rope", rope_declare, rope_forward, rope_backward, expect_rope, rope_cases },
	{ "attention", attention_declare, attention_forward, attention_backward, expect_attention,
	    attention_cases },
	{ "act", act_declare, act_forward, act_backward, expect_act, act_cases },
	{ "expert act", expert_act_declare, expert_act_forward, expert_act_backward,
	    expect_expert_act, expert_act_cases },
	{ "dropout", dropout_declare, dropout_forward, dropout_backward, expect_dropout,
	    dropout_cases },
	{ "residual", residual_declare, residual_forward, residual_backward, expect_residual,
	    residual_cases },
	{ "block", block_declare, block_forward, block_backward, expect_block, block_cases },
	{ "add", add_declare, add_forward, add_backward, expect_add, add_cases },
	{ "sum", sum_declare, sum_forward, sum_backward, expect_sum, sum_cases },
	{ "axpby", add_declare, axpby_forward, axpby_backward, expect_axpby, axpby_cases },
	{ "embedding", embedding_declare, embedding_forward, embedding_backward, expect_embedding,
	    embedding_cases },
	{ "xent", xent_declare, xent_forward, xent_backward, expect_xent, xent_cases },
	{ 0 },
};

#endif
