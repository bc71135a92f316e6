/*
 * fitted.c - mplan fit finds the constants by which steps were made, keeps those that the steps do
 * not determine, and reads tables as they are published
 */
#include "lib/model/stacks.h"
#include "plan/fit.h"
#include "plan/options.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char header[] =
    "id\tmodel\tarch\tlayers\thidden\theads\tkv_heads\tffn\tact\tvocab\ttied"
    "\tseq\tgpu\tgpu_mem_gb\tgpus\tgpus_per_node\tnet_gbps_per_gpu"
    "\tframework\ttp\tpp\tvpp\tsp\tsharding\tmbs\tgbs\trecompute"
    "\tprecision\titer_s\ttok_s_gpu\tstatus\tsource\n";

/* Rows of published tables: of one, the seconds of a step are tokens over the rate. */
static void
add_table(struct str *out)
{
	static const int layout[][4] = { { 1, 1, 1, 8 }, { 2, 1, 4, 16 }, { 4, 1, 8, 16 },
		{ 8, 1, 8, 16 }, { 1, 2, 2, 32 }, { 2, 4, 1, 32 }, { 4, 2, 2, 64 },
		{ 1, 4, 4, 64 } };

	str_adds(out, header);
	for (int i = 0; i < 16; i++) {
		const int *l = layout[i / 2];
		int hidden = i % 2 ? 4096 : 1024;

		str_addf(out,
		    "a%d-%03d\tGPT %d\tgpt\t24\t%d\t16\t16\t%d\tgelu\t51200\t1\t2048"
		    "\tA100-SXM\t80\t%d\t8\t200\tMegatron-LM\t%d\t%d\t1\t0\tnone\t%d\t128"
		    "\t%s\tfp16\t1\t\tok\n",
		    i / 8, i, hidden, hidden, 4 * hidden, l[3], l[0], l[1], l[2],
		    i % 3 ? "full" : "none");
	}
	str_adds(out,
	    "b-001\tother\tllama\t2\t64\t4\t4\t256\tswiglu\t512\t1\t64\tA100-SXM\t80"
	    "\t8\t8\t\tNeMo\t1\t1\t1\t0\tnone\t1\t8\tnone\tnvfp4\t1\t\tok\n"
	    "c-001\tno memory\tgpt\t2\t64\t4\t4\t256\tgelu\t512\t1\t64\tA100-SXM\t80"
	    "\t8\t8\t\tFSDP\t1\t1\t1\t0\tzero3\t1\t8\tnone\tbf16\t\t\toom\n"
	    "d-001\trate\tllama\t2\t64\t4\t2\t256\tswiglu\t512\t0\t64\tH100-SXM\t80"
	    "\t8\t8\t\tFSDP\t1\t1\t1\t0\tzero3\t1\t8\tnone\tbf16\t\t32\tok\n"
	    "e-001\tnodes\tllama\t2\t64\t4\t2\t256\tswiglu\t512\t0\t64\tH200\t141"
	    "\t16\t8\t\tfms-fsdp\t1\t1\t1\t0\thsdp\t1\t16\tnone\tbf16\t1\t\tok\n"
	    "f-001\tadds\tgpt\t2\t64\t4\t4\t256\tgelu\t512\t1\t64\tH200\t141\t8\t8\t"
	    "\tMegatron-LM\t1\t1\t1\t0\tnone\t1\t8\tnone\tfp16\t1\t\tok\tApril 2021\n");
}

static void
test_rows(const char *path)
{
	static const char *const one[] = { "d" };
	struct opt_list ids = { 1, (const char **)one };
	struct str why = { 0 };
	struct measured_rows r = { 0 };
	struct err e = { "" };

	CHECK(rows_read(&r, path, &(struct rows_wanted){ NULL, NULL, &why }, &e) == 0);
	CHECK(r.count == 19 && r.left == 2);
	CHECK(strstr(why.buf, "b-001: left out: nvfp4") && strstr(why.buf, "c-001: left out: did"));
	CHECK_STR(r.item[0].source, "a0");
	CHECK_STR(r.item[0].gpu, "a100-80");
	CHECK(r.item[0].hw.network_bandwidth == 25 && r.item[0].seconds == 1);
	CHECK(r.item[2].plan.layout.tensor_model_parallel_size == 2);
	CHECK(!hardware_is_own(&r.item[0].hw));
	rows_release(&r);
	CHECK(rows_read(&r, path, &(struct rows_wanted){ &ids, "h100", NULL }, &e) == 0);
	CHECK(r.count == 1 && r.item[0].seconds == 8 * 64 / 32.0 / 8);
	CHECK(r.item[0].plan.shape.sharding == SHARDING_PARAMS);
	CHECK(r.item[0].hw.memory_passes == 1.9 && r.item[0].hw.gradient_bytes == 0);
	rows_release(&r);
	CHECK(rows_read(&r, path, &(struct rows_wanted){ NULL, "h200", NULL }, &e) == 0);
	CHECK(r.count == 2 && r.item[0].hw.memory_passes == 1);
	CHECK(layout_instances(&r.item[0].plan.layout) == 2);
	CHECK(r.item[0].plan.shape.grad_reduce_in_bf16);
	CHECK(r.item[1].hw.gradient_bytes == 6 && r.item[1].hw.gradient_fusion == 0);
	rows_release(&r);
	CHECK(rows_read(&r, path, &(struct rows_wanted){ &ids, "a100-80", NULL }, &e) == 0);
	CHECK(r.count == 0);
	CHECK(rows_read(&r, "none.tsv", &(struct rows_wanted){ NULL, NULL, NULL }, &e) < 0);
	str_release(&why);
}

static int
number_of(const char *option)
{
	int i = 0;

	while (strcmp(fit_constants[i].option, option) != 0)
		i++;
	return i;
}

/* Steps that other constants made are met, by these constants. */
static void
test_fit(const char *path)
{
	static const char *const ids[] = { "a" };
	struct opt_list a = { 1, (const char **)ids };
	struct measured_rows r = { 0 };
	struct fitted start, made, found;
	int gemm = number_of("gemm-efficiency"), host = number_of("host-us"),
	    eight = number_of("fp8-efficiency");
	double sum = 0, before = 0;
	bool use[16];
	struct err e;

	CHECK(rows_read(&r, path, &(struct rows_wanted){ &a, NULL, NULL }, &e) == 0);
	fit_of(&r.item[0].hw, &start);
	made = start;
	made.value[gemm] = 0.65;
	made.value[host] = 60;
	for (int i = 0; i < r.count; i++) {
		r.item[i].seconds = fit_seconds(&r.item[i], &made);
		use[i] = true;
		before += fabs(fit_seconds(&r.item[i], &start) / r.item[i].seconds - 1);
	}
	fit_prepare(&r, &start);
	fit_rows(&r, use, &start, NULL, &found);
	for (int i = 0; i < r.count; i++)
		sum += fabs(fit_seconds(&r.item[i], &found) / r.item[i].seconds - 1);
	printf("host %.3g us; mean error %.2f %% before, %.2f %% after\n", found.value[host],
	    100 * before / 16, 100 * sum / 16);
	CHECK(before / 16 > 0.1 && sum / 16 < 0.02);
	CHECK(found.known[gemm] && fabs(found.value[gemm] / 0.65 - 1) < 0.05);
	CHECK(found.known[host] && fabs(found.value[host] - 60) < 15);
	CHECK(!found.known[eight] && found.value[eight] == start.value[eight]);
	rows_release(&r);
}

/* Every program that is named can be taken, has an error, and its options are known. */
static void
test_stacks(void)
{
	for (int i = 0; stack_names[i]; i++) {
		struct plan_config cfg;
		struct hardware hw;
		struct opt_parse p;
		struct err e = { "" };
		char text[128];

		snprintf(
		    text, sizeof text, "gpu a100-80\nstack %s\nkernel-us 77\n", stack_names[i]);
		opt_begin(&p, plan_time_opts, &cfg);
		CHECK(opt_text(&p, "text", text, false, &e) == 0);
		CHECK(hardware_check_stack(&cfg.hw, &e) == 0);
		CHECK_STR(e.msg, "");
		hardware_resolve(&p, cfg.gpu, &cfg.hw, &hw);
		CHECK(hw.profile_error > 0 && hw.kernel_us == 77 && hw.tflops == 312);
		opt_release(&p);
	}
}

int
main(void)
{
	char path[] = "/tmp/mikoshi-fitted-XXXXXX";
	struct str table = { 0 };
	int fd = mkstemp(path);

	add_table(&table);
	CHECK(fd >= 0 && write(fd, table.buf, table.len) == (ssize_t)table.len && close(fd) == 0);
	test_rows(path);
	test_fit(path);
	test_stacks();
	unlink(path);
	str_release(&table);
	return check_done();
}
