# mikoshi - one makefile, no recursion. `make help` lists the targets; config.mk (untracked)
# overrides the variables.
MAKEFLAGS += -rR
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := all

PREFIX   = /usr/local
DESTDIR  =
CC       = cc
CXX      = c++
NVCC     = nvcc
CLANG_FORMAT = clang-format
MPICC    = mpicc
OPT      = -O3 $(if $(filter x86_64,$(machine)),-march=x86-64-v3)
CUDA     = auto
CUDA_ARCH ?= 80 90a 100
GOLDEN   =
-include config.mk

# Another machine: the prefix of its compilers, whatever config.mk calls this one's; the root of its
# libraries, where they do not lie in the compiler's; and what runs its programs here.
CROSS_COMPILE =
SYSROOT  =
RUN      =
export RUN
ifneq ($(CROSS_COMPILE),)
CC       = $(CROSS_COMPILE)gcc
CXX      = $(CROSS_COMPILE)g++
endif
target  := $(or $(shell $(CC) -dumpmachine 2>/dev/null),$(shell uname -m))
machine := $(firstword $(subst -, ,$(target)))
cross   := $(filter-out $(shell uname -m),$(machine))
binutil  = $(or $(shell $(CC) -print-prog-name=$(1) 2>/dev/null),$(1))
ifneq ($(CROSS_COMPILE),)
ifeq ($(shell command -v $(CC)),)
$(error CROSS_COMPILE=$(CROSS_COMPILE) asks for another machine, but there is no $(CC))
endif
endif
ifneq ($(cross),)
ifeq ($(CUDA),1)
$(error CUDA=1 asks for CUDA, which is built on its own machine, not for $(machine) here)
endif
CUDA := 0
endif
VERSION := $(shell cat VERSION)
COMMIT  := $(shell git rev-parse --short=8 HEAD 2>/dev/null || echo none)
TOOLS    = $(sort $(patsubst bin/%.c,%,$(wildcard bin/*.c)))

# A variant (another machine, sanitizer or debug) builds in its own directory and never mixes objects.
comma   := ,
variant := $(addprefix -,$(cross) $(subst $(comma),-,$(SAN)) $(if $(DEBUG),debug))
variant := $(subst $() ,,$(variant))
B       := build$(variant)

WARN     = -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wno-overlength-strings \
	-Wno-missing-field-initializers $(if $(CI),-Werror)
# mpicc knows this machine's Open MPI alone; another machine's is where Debian puts it.
ifeq ($(cross),)
mpi_includes := $(patsubst -I%,-isystem %,$(filter -I%,$(shell $(MPICC) --showme:compile \
	2>/dev/null)))
mpi_libs := $(filter -L% -l%,$(shell $(MPICC) --showme:link 2>/dev/null))
else
mpi_includes := -isystem $(SYSROOT)/usr/lib/$(target)/openmpi/include
mpi_libs := -L$(SYSROOT)/usr/lib/$(target)/openmpi/lib -lmpi
endif
root_flag = $(addprefix --sysroot=,$(SYSROOT))
# A distribution's compiler may put calls that check sizes in place of the usual ones, which the
# simulator renames.
CPPFLAGS = -I. -D_GNU_SOURCE -U_FORTIFY_SOURCE $(root_flag) $(mpi_includes)
CFLAGS   = -std=c17 $(if $(DEBUG),-O0,$(if $(SAN),-O1,$(OPT))) -g \
	-ffp-contract=off $(WARN) -Wstrict-prototypes $(sanflags)
CXXFLAGS = -std=c++17 $(if $(DEBUG),-O0,$(if $(SAN),-O1,$(OPT))) -g $(WARN) $(sanflags)
sanflags = $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) \
	-ffile-prefix-map='$(CURDIR)'=.
LDFLAGS  = $(root_flag) $(if $(SAN),-fsanitize=$(SAN))
LIBS     = -lsentencepiece_train -lsentencepiece -lsimdjson -lpcre2-8 -lutf8proc -lz \
	-lzstd -lstdc++ -lpthread -lm
MPILIBS  = $(mpi_libs) -lopenblas
train_libs = $(MPILIBS) -ldl $(if $(cuda_obj),$(opens_cuda))

# CUDA is probed once per build directory: nvcc must compile a kernel and link cuBLASLt and NCCL,
# which mikoshi-cuda.so alone needs, and cuDNN, which it looks for.
-include $(B)/probe.mk
HAVE_CUDA := $(if $(filter 0,$(CUDA)),,$(if $(filter 1,$(CUDA)),1,$(PROBE_CUDA)))
CUDA_LIBS  = -L$(CUDA_HOME)/lib64 -lcublasLt -lnccl -lcudart -lstdc++
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(NVCC) 2>/dev/null)))
ifeq ($(CUDA)$(CUDA_HOME),1)
$(error CUDA=1 asks for CUDA, but there is no $(NVCC))
endif
gencode    = $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a))
NVFLAGS    = -std=c++17 -O3 -I. $(gencode) -Xfatbin -compress-all -Xcompiler -Wall,-Wextra \
	-Xcompiler -fPIC,-fvisibility=hidden -Wno-deprecated-gpu-targets

find = $(sort $(wildcard $(addsuffix /*.$(1),$(2))))
LIB_DIRS   = lib/base lib/script lib/data lib/ckpt lib/token lib/token/bpe lib/token/spm lib/token/hf \
	lib/model lib/model/block lib/model/family lib/model/lr
lib_obj   := $(patsubst %,$(B)/%.o,$(call find,c,$(LIB_DIRS)) $(call find,cc,$(LIB_DIRS)))
tok_obj   := $(patsubst %,$(B)/%.o,$(call find,c,tok) $(call find,cc,tok))
shard_obj := $(patsubst %,$(B)/%.o,$(call find,c,shard))
plan_obj  := $(patsubst %,$(B)/%.o,$(call find,c,plan))
ckpt_obj  := $(patsubst %,$(B)/%.o,$(call find,c,ckpt))
export_obj := $(patsubst %,$(B)/%.o,$(call find,c,export))
# The CPU operations are compiled twice: arithmetic in float, and in double for the fp64 oracle.
# Without errno, loops with square roots are vectorised; the bits are the same.
CPU_FLAGS = -fno-math-errno
cpu_src   := $(call find,c,train/cpu)
cpu_obj   := $(patsubst %,$(B)/%.f32.o,$(filter-out train/cpu/backend.c,$(cpu_src))) \
	$(patsubst %,$(B)/%.f64.o,$(filter-out train/cpu/backend.c,$(cpu_src))) \
	$(patsubst %,$(B)/%.o,$(wildcard train/cpu/backend.c))
CUDA_DIRS  = train/cuda train/cuda/gemm train/cuda/attention train/nccl
cuda_src  := $(call find,cu,$(CUDA_DIRS)) $(call find,c,$(CUDA_DIRS))
cuda_obj  := $(if $(HAVE_CUDA),$(patsubst %,$(B)/%.o,$(cuda_src)))
TRAIN_DIRS = train train/watch train/config train/engine train/layers train/optim train/step \
	train/state train/report train/data train/run train/mpi train/hosts
train_obj := $(patsubst %,$(B)/%.o,$(call find,c,$(TRAIN_DIRS))) $(cpu_obj)

progs := $(addprefix $(B)/,$(TOOLS))
# The backend of GPUs, which programs open: beside mtrain or in lib/. They give it what it calls of
# ours and does not have, program.list.
cuda_so := $(if $(cuda_obj),$(B)/mikoshi-cuda.so)
gives   := $(if $(cuda_obj),$(B)/program.list)
given    = $(shell sed -n 's/^\([a-z].*\);/\1/p' $(B)/program.list)
opens_cuda = -Wl,--dynamic-list=$(B)/program.list $(addprefix -Wl$(comma)-u$(comma),$(given)) \
	-Wl,--enable-new-dtags,-rpath,'$$ORIGIN$(if $(filter $(B)/tests/%,$@),/../..,:$$ORIGIN/../lib)'
linked   = $(filter %.o %.a,$^)
all: $(progs)

$(B)/mtok: $(B)/bin/mtok.c.o $(tok_obj) $(B)/libmikoshi.a
$(B)/mshard: $(B)/bin/mshard.c.o $(shard_obj) $(B)/libmikoshi.a
$(B)/mplan: $(B)/bin/mplan.c.o $(plan_obj) $(B)/libmikoshi.a
$(B)/mckpt: $(B)/bin/mckpt.c.o $(ckpt_obj) $(B)/libmikoshi.a
$(B)/mexport: $(B)/bin/mexport.c.o $(export_obj) $(B)/libmikoshi.a
$(B)/mtrain: $(B)/bin/mtrain.c.o $(train_obj) $(B)/libmikoshi.a
$(B)/mtrain: extra = $(train_libs)
$(B)/mtrain: $(gives)
$(progs):
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $(linked) $(extra) $(LIBS)

$(B)/mikoshi-cuda.so: $(cuda_obj)
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -shared -o $@ $^ $(CUDA_LIBS)
$(B)/program.list: $(B)/mikoshi-cuda.so $(train_obj) $(B)/libmikoshi.a
	$(Q)nm -D -u $< | sed 's/.* //' | sort >$@.taken
	$(Q)nm -g --defined-only $(filter-out $<,$^) | sed -n 's/^[0-9a-f]* [A-Z] //p' | sort -u | \
		comm -12 - $@.taken | sed '1s/^/{\n/; s/$$/;/; $$s/$$/\n};/' >$@

$(B)/libmikoshi.a: $(lib_obj)
$(B)/libmikoshi.a $(B)/tests/lib.a:
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && $(call binutil,ar) Dcr $@ $^

$(B)/%.c.o: %.c $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) $(defs) -MMD -MP -c -o $@ $<
$(B)/%.c.f32.o: %.c $(B)/flags
	$(call say,CC,$< (f32))
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) $(CPU_FLAGS) -DCPU_REAL=32 -MMD -MP -c -o $@ $<
$(B)/%.c.f64.o: %.c $(B)/flags
	$(call say,CC,$< (f64))
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) $(CPU_FLAGS) -DCPU_REAL=64 -MMD -MP -c -o $@ $<
$(B)/%.c.pic.o: %.c $(B)/flags
	$(call say,CC,$< (any place))
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) $(cuda_defs) -MMD -MP -c -o $@ $<
$(B)/%.cc.o: %.cc $(B)/flags
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D) && $(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<
$(B)/%.cu.o: %.cu $(B)/flags
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D) && $(NVCC) $(NVFLAGS) -MMD -MP -c -o $@ $<

# Only these files depend on version and backends, so a new commit rebuilds only these.
build_defs = -DMIKOSHI_VERSION='"$(VERSION)"' -DMIKOSHI_COMMIT='"$(COMMIT)"'
cuda_defs  = -isystem $(CUDA_HOME)/include -fPIC -fvisibility=hidden
$(B)/lib/base/prog.c.o: defs = $(build_defs)
$(B)/lib/base/prog.c.o $(B)/train/cuda/object.c.o: $(B)/version
$(B)/train/backends.c.o: defs = $(if $(cuda_obj),-DHAVE_CUDA)
$(B)/train/cuda/%.c.o $(B)/train/nccl/%.c.o: defs = $(cuda_defs)
$(B)/train/cuda/object.c.o: defs = $(cuda_defs) $(build_defs)

# Stamp files that change only when their text does.
stamp = @mkdir -p $(B); printf '%s\n' '$(subst ','\'',$(2))' | cmp -s - $(1) || \
	printf '%s\n' '$(subst ','\'',$(2))' >$(1)
all_flags = $(CC) $(CXX) $(if $(cuda_obj),$(CUDA_HOME)) $(CPPFLAGS) $(CFLAGS) $(CPU_FLAGS) $(CXXFLAGS) \
	$(NVFLAGS) $(if $(cuda_obj),linked) cuda=$(HAVE_CUDA)
$(B)/flags: force
	$(call stamp,$@,$(filter-out -Werror,$(all_flags)))
$(B)/version: force
	$(call stamp,$@,$(VERSION) $(COMMIT))
$(B)/probe.mk:
	@mkdir -p $(B)
	@printf '__global__ void k(void){}\nint main(void){k<<<1,1>>>();return 0;}\n' >$(B)/probe.cu
	@if $(NVCC) -o $(B)/probe $(B)/probe.cu -lcublasLt -lnccl >$(B)/probe.log 2>&1; \
		then echo PROBE_CUDA=1; else echo PROBE_CUDA=; fi >$@
	@rm -f $(B)/probe $(B)/probe.cu

config: $(B)/probe.mk
	@echo "CUDA: $(if $(HAVE_CUDA),yes ($(CUDA_HOME)),no)   variant: $(B)  " \
		"MPI: $(shell $(MPICC) --showme:version 2>/dev/null)"

# A directory, absolute for scripts that work in others; blanks are kept.
golden = $(if $(GOLDEN),"$$(realpath '$(GOLDEN)')")

# --- tests ----------------------------------------------------------------------------------------
unit_src := $(call find,c,tests/unit tests/prop tests/grad tests/tools tests/bench)
op_src   := $(filter-out tests/op/driver.c tests/op/problem.c,$(call find,c,tests/op))
op_bin   := $(patsubst %.c,$(B)/%,$(op_src))
unit_bin := $(patsubst %.c,$(B)/%,$(unit_src))
gpu_bin  := $(patsubst %.c,$(B)/%,$(call find,c,tests/gpu))
fault_bin := $(B)/tests/faults/faults $(B)/tests/faults/replay
preloaded := $(B)/tests/faults/shim.so $(patsubst %,$(B)/tests/parity/%.so,apart peers rails syncs)
fault_obj := $(patsubst %,$(B)/%.o,$(filter-out $(patsubst $(B)/%,%.c,$(fault_bin)) \
	tests/faults/shim.c,$(call find,c,tests/faults)))
opened   := $(patsubst %.c,$(B)/%.so,$(call find,c,tests/opened))
# A second opinion on steps of training, which shares nothing with the programs.
oracle   := $(B)/tests/oracle/oracle
# mtrain with tests/faulty/fault.c in place of the file that does nothing.
faulty   := $(B)/tests/faulty/mtrain
faulty_obj = $(B)/bin/mtrain.c.o $(filter-out %/fault_none.c.o,$(train_obj)) \
	$(B)/tests/faulty/fault.c.o $(B)/libmikoshi.a \
	$(if $(cuda_obj),$(B)/tests/faulty/spin.cu.o,$(B)/tests/faulty/spin_none.c.o)
# mtrain on a CPU that records passes, as a GPU does.
recorded := $(B)/tests/recorded/mtrain
# mtrain whose rows take the experts that they took in another run.
routed   := $(B)/tests/routed/mtrain
# mtrain whose buffers lie elsewhere: PLACE_SEED is the order of placing.
placed   := $(B)/tests/placed/mtrain
# mtrain without watchdog and timers, to measure what they cost.
unwatched := $(B)/tests/unwatched/mtrain
# The product in a simulated cluster: its own objects, whose calls bundle.sh renames, but for those
# of a GPU, which it does not have, and the starts of a launcher and of commands, which are the
# simulator's.
sim_obj  := $(patsubst %,$(B)/%.o,$(call find,c,tests/sim))
sim_product := $(patsubst %,$(B)/bin/%.c.o,mtrain mtok mshard mckpt mexport) \
	$(B)/tests/sim/bin/check.c.o $(B)/tests/faults/saved.c.o $(B)/tests/sim/backends.o \
	$(filter-out $(B)/train/backends.c.o \
	$(B)/train/run/launch.c.o $(B)/train/report/feed.c.o $(B)/train/state/hooks.c.o,$(train_obj)) \
	$(tok_obj) $(shard_obj) \
	$(ckpt_obj) $(export_obj) $(lib_obj)
fuzz_src := $(call find,c,tests/fuzz)
fuzz_bin := $(patsubst %.c,$(B)/%,$(filter-out tests/fuzz/driver.c,$(fuzz_src)))
# An archive, of which the linker takes what a test needs: all objects would take it four times as
# long.
test_obj := $(patsubst %,$(B)/%.o,$(call find,cc,tests)) $(tok_obj) $(shard_obj) $(plan_obj) \
	$(ckpt_obj) $(export_obj) $(train_obj)
test_lib := $(B)/tests/lib.a $(B)/libmikoshi.a
$(B)/tests/lib.a: $(test_obj)

# A simulator with sanitizers is built by `make SAN=address sim`: it takes minutes, and tests of
# variants do not need it.
tests: $(progs) $(unit_bin) $(op_bin) $(gpu_bin) $(fuzz_bin) $(fault_bin) $(preloaded) $(faulty) \
	$(recorded) $(routed) $(placed) $(oracle) $(if $(SAN),,$(B)/sim)
$(unit_bin) $(op_bin) $(gpu_bin) $(fuzz_bin) $(faulty) $(recorded) $(routed) $(placed) \
	$(unwatched): $(gives)
$(B)/tests/unit/backend: $(opened)
$(B)/tests/unit/command: $(B)/tests/faults/command.c.o
$(unit_bin): $(B)/%: $(B)/%.c.o $(test_lib)
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $(filter %.o,$^) $(test_lib) $(train_libs) $(LIBS)
# The cases of an operation, and what runs them.
$(op_bin): $(B)/%: $(B)/%.c.o $(B)/tests/op/driver.c.o $(B)/tests/op/problem.c.o $(test_lib)
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $(linked) $(train_libs) $(LIBS)
$(gpu_bin): $(B)/%: $(B)/%.c.o $(test_lib)
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $(linked) $(train_libs) $(LIBS)
$(fuzz_bin): $(B)/%: $(B)/%.c.o $(B)/tests/fuzz/driver.c.o $(test_lib)
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $< $(B)/tests/fuzz/driver.c.o $(test_lib) $(train_libs) $(LIBS)

$(fault_bin): $(B)/%: $(B)/%.c.o $(fault_obj) $(ckpt_obj) $(B)/libmikoshi.a
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LIBS)
$(oracle): $(patsubst %,$(B)/%.o,$(call find,c,tests/oracle))
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm
$(faulty): $(faulty_obj)
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $(linked) $(train_libs) $(if $(cuda_obj),$(CUDA_LIBS)) $(LIBS)
$(recorded): $(B)/bin/mtrain.c.o $(train_obj) $(B)/tests/recorded/record.c.o $(B)/libmikoshi.a
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -Wl,--wrap=backend_choose -o $@ $(linked) $(train_libs) $(LIBS)
$(routed): $(B)/bin/mtrain.c.o $(train_obj) $(B)/tests/routed/choices.c.o $(B)/libmikoshi.a
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -Wl,--wrap=router_forward,--wrap=prog_exit -o $@ $(linked) $(train_libs) $(LIBS)
$(placed): $(B)/bin/mtrain.c.o $(train_obj) $(B)/tests/placed/shuffle.c.o $(B)/libmikoshi.a
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -Wl,--wrap=place_tight,--wrap=pipeline_run -o $@ $(linked) $(train_libs) \
		$(LIBS)
$(unwatched): $(B)/bin/mtrain.c.o $(train_obj) $(B)/tests/unwatched/none.c.o $(B)/libmikoshi.a
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -Wl,--wrap=watchdog_start,--wrap=timing_watch -o $@ $(linked) \
		$(train_libs) $(LIBS)
$(B)/tests/sim/backends.o: train/backends.c $(B)/flags
	$(call say,CC,$< (CPU))
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(B)/tests/sim/product.o: $(sim_product) $(wildcard tests/sim/bundle/*)
	$(call say,LD,$@)
	$(Q)LD='$(call binutil,ld)' NM='$(call binutil,nm)' OBJCOPY='$(call binutil,objcopy)' \
		OBJDUMP='$(call binutil,objdump)' \
		sh tests/sim/bundle/bundle.sh $@ $(filter %.o,$^)
$(B)/sim: $(sim_obj) $(B)/tests/sim/product.o $(B)/libmikoshi.a
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(MPILIBS) -ldl $(LIBS)
# A preloaded library sits below the program, so it is built without the variant's flags.
$(preloaded): $(B)/%.so: %.c $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) -std=c17 -O2 $(WARN) -MMD -MP -fPIC -shared -o $@ $<

# Attention for Hopper as an object that PyTorch opens: kernels of the product, and what these take
# of lib/, to lie anywhere in memory.
peer_so  := $(if $(cuda_obj),$(B)/tests/bench/attention_peer.so)
$(B)/tests/bench/attention_peer.so: $(filter $(B)/train/cuda/attention/hopper% \
	$(B)/train/cuda/maps.c.o $(B)/train/cuda/symbols.c.o,$(cuda_obj)) \
	$(patsubst %,$(B)/%.c.pic.o,tests/bench/peer/attention lib/base/dtype lib/base/err \
	lib/base/mem lib/model/hopper)
	$(call say,LD,$@)
	$(Q)$(CXX) $(LDFLAGS) -shared -o $@ $^ -L$(CUDA_HOME)/lib64 -lcudart -lstdc++ -ldl
# Objects that a test opens as mtrain opens the backend of GPUs.
$(B)/tests/opened/%.so: tests/opened/%.c $(B)/flags $(B)/version
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(build_defs) -std=c17 -O2 $(WARN) -MMD -MP -fPIC -shared \
		-Wl,-soname,lib$*.so.1 -o $@ $< $(filter %.so,$^)
$(B)/tests/opened/needs.so: $(B)/tests/opened/other.so

# The runner prints one line per program or file and ends with "N passed, N failed".
test: tests
	@B=$(B) sh tests/run.sh parity bats faults sim lint unit prop op grad fuzz
test-unit: tests
	@B=$(B) sh tests/run.sh unit prop op grad fuzz
test-bats: tests
	@B=$(B) sh tests/run.sh bats
# Tests of everything that reads foreign bytes, for a build with sanitizers: SAN=address,undefined.
test-parsers: tests
	@B=$(B) sh tests/run.sh unit prop fuzz parsers
test-parity: tests
	@B=$(B) sh tests/run.sh parity
# Every legal layout of 8 ranks and every ZeRO stage, in place of the sample that SEED draws; 300
# models for the oracle.
parity-all: tests
	@B=$(B) ALL=1 ONLY=layouts sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=offload sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=saved sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=residual sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=fp8 sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=parity/oracle sh tests/run.sh parity
# Every layout of tests/parity/rows on several hosts, and 16 ranks; all operations of 24 ranks; bytes
# between hosts against the plan's; to whom each of 64 ranks sends.
parity-hosts: tests
	@B=$(B) ALL=1 ONLY=pretended sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=parity/comm sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=parity/sent sh tests/run.sh parity
	@B=$(B) ALL=1 ONLY=parity/peers sh tests/run.sh parity
# 16 ranks in five layouts on 1, 2, 4 and 16 hosts and two of network namespaces; in instances.
hosts-matrix: tests
	@B=$(B) ALL=16 ONLY=pretended sh tests/run.sh parity
# Mistakes in sums and messages between hosts, each of which a test must find.
hosts-mutants: all tests
	@B=$(B) sh tests/parity/mutants/mutants.sh $(MUTANTS)
# N models of each FAMILY, and the tokenizers in GOLDEN, against PYTHON's torch and transformers.
python_with = PATH=$(abspath $(B)):$$PATH OMP_NUM_THREADS=1 \
	$(or $(PYTHON),python3) tests/golden
test-hf: $(progs) $(B)/tests/tools/hf_decoded
	@$(python_with)/family.py -n $(or $(N),8) $(FAMILY)
	@PATH=$(abspath $(B)/tests/tools):$$PATH; $(python_with)/quantised.py
	@[ -z "$(GOLDEN)" ] || $(python_with)/family_tokens.py $(golden)
# N changes of the config.json of models of each FAMILY, against PYTHON's transformers 5.
test-mutations: $(progs)
	@$(python_with)/mutate.py -n $(or $(N),200) -s $(or $(SEED),1) $(FAMILY)
# Which of thirty published kinds of models are read here and by PYTHON's transformers 5: a table.
test-kinds: $(progs)
	@$(python_with)/kinds.py $(KIND)
# Tasks against PYTHON's lm_eval, with tokenizers of the directory TOKENIZERS.
test-tasks: $(progs)
	@$(or $(PYTHON),python3) tests/tools/lmeval_same.py $(B) '$(TOKENIZERS)'
# N random tokenizer.json, from number SEED on, against PYTHON's tokenizers.
test-tokenizers: $(progs)
	@$(python_with)/random_tokenizers.py -n $(or $(N),300) -s $(or $(SEED),1)
# Models of every FAMILY through Megatron-LM's formats; then Megatron-LM itself, whose source is in
# the directory MEGATRON, resumes what mckpt export writes, and saves experts that mckpt imports.
test-megatron: $(progs) $(B)/tests/tools/megatron_same
	@$(python_with)/megatron_families.py -n $(or $(N),8) $(FAMILY)
	@$(python_with)/megatron_resume.py '$(MEGATRON)'
	@PATH=$(abspath $(B)/tests/tools):$$PATH; $(python_with)/megatron_experts.py \
		'$(MEGATRON)' $(B)/megatron-experts
# Models made of others beside those of PEFT, mergekit and others, where PYTHON and the directories
# have them.
test-surgery: $(progs)
	@GOLDEN=$(golden) MEGATRON='$(MEGATRON)' $(python_with)/surgery.py $(PEERS)
# TensorBoard's and W&B's own readers, where PYTHON has tensorboard and wandb 0.19.11.
test-boards: $(progs)
	@$(python_with)/boards.py
# The public option blocks in BLOCKS (by default those of tests/porting) through mtrain --dry-run, a
# table of what is accepted; then settings that their switch makes count, and each option without
# effect in a run of its own. With a checkout of Megatron-LM in the directory MEGATRON, those of its
# options that mtrain does not know.
test-porting: $(progs) $(B)/tests/unit/foreign
	@B=$(B) sh tests/porting/porting.sh $(BLOCKS)
	@[ -z "$(MEGATRON)" ] || \
		$(or $(PYTHON),python3) tests/tools/megatron_options.py '$(MEGATRON)' --new
	@B=$(B) ONLY=settings sh tests/run.sh porting
	@B=$(B) ALONE=1 ONLY=foreign sh tests/run.sh parity
test-golden: tests
	@B=$(B) GOLDEN=$(golden) sh tests/run.sh golden
# Toys of every kind of component, added to a copy of the tree; ONLY=KIND takes one.
test-extend: $(progs) $(recorded)
	@B=$(B) sh tests/extend/extend.sh
# A cross build for aarch64, its tests under qemu-user, and 20 steps of the example against this
# machine's; the libraries come into SYSROOT, by default build-aarch64-root.
test-aarch64:
	@MAKE='$(MAKE)' sh tests/tools/aarch64.sh $(SYSROOT)
test-gpu: $(progs) $(gpu_bin) $(op_bin) $(faulty)
	@B=$(B) sh tests/run.sh gpu
# N injections, from SEED on; FAULT=K repeats one of them.
faults: tests
	@B=$(B) N=$(or $(N),20) SEED=$(SEED) FAULT=$(FAULT) sh tests/run.sh faults
sim: $(B)/sim
# Simulated seeds an hour, and injections an hour into real processes.
sim-rate: $(B)/sim $(progs) $(fault_bin) $(B)/tests/faults/shim.so
	@B=$(B) sh tests/bench/sim.sh
# Plausible mistakes (MUTANTS, by default all): a simulator with each, which SEEDS seeds must find.
sim-mutants-made: $(B)/sim
	@B=$(B) COMPILE='$(CC) $(CPPFLAGS) $(CFLAGS)' \
		LINK='$(CXX) $(LDFLAGS)' LIBS='$(MPILIBS) -ldl $(LIBS)' OBJECTS='$(sim_obj)' \
		PRODUCT='$(sim_product)' sh tests/sim/mutants/make.sh $(MUTANTS)
sim-mutants: sim-mutants-made
	@SEEDS=$(or $(SEEDS),10000) JOBS=$(or $(JOBS),2) \
		sh tests/sim/mutants/mutants.sh $(B)/mutants/made $(MUTANTS)
lint:
	@B=$(B) sh tests/run.sh lint
# With version 14, like the lint: see .clang-format.
format:
	find bin lib tok shard plan ckpt export train tests \( -name '*.[ch]' -o -name '*.cc' \
		-o -name '*.cu' -o -name '*.cuh' \) -exec $(CLANG_FORMAT) -i {} +
fuzz:
	@sh tests/fuzz/fuzz.sh
bench: tests
	@B=$(B) GOLDEN=$(golden) sh tests/bench/bench.sh
	@B=$(B) sh tests/bench/corpora.sh
	@B=$(B) sh tests/bench/hostile.sh
	@[ -z "$(GOLDEN)" ] || B=$(B) GOLDEN=$(golden) sh tests/bench/tok.sh
	@[ -z "$(GOLDEN)" ] || B=$(B) GOLDEN=$(golden) sh tests/bench/mtok.sh
# Errors of mplan's times over the rows of PUBLISHED, against the committed table.
published: $(B)/mplan
	@PATH="$(abspath $(B)):$$PATH" sh tests/bench/published.sh "$$(realpath '$(PUBLISHED)')"
bench-gpu: all $(B)/tests/bench/ceiling
	@B=$(B) sh tests/bench/gpu.sh $(WORKLOADS)
# Beside PYTHON's PyTorch; SHAPES are texts of the names of those that are measured.
bench-attention: $(B)/tests/bench/attention $(peer_so)
	@$(B)/tests/bench/attention both $(SHAPES)
	@$(if $(peer_so),$(or $(PYTHON),python3) tests/bench/attention_peer.py $(peer_so) $(SHAPES))
bench-offload: all $(B)/tests/bench/host
	@B=$(B) sh tests/bench/offload.sh optimizer
	@B=$(B) sh tests/bench/offload.sh layers
bench-watch: all $(unwatched)
	@B=$(B) sh tests/bench/watch.sh

# --- the rest -------------------------------------------------------------------------------------
prefix  = '$(DESTDIR)$(PREFIX)'
install: all
	install -d $(prefix)/bin $(prefix)/share/man/man1 $(prefix)/share/man/man5 \
		$(prefix)/share/man/man7 $(prefix)/share/man/ja/man7 \
		$(prefix)/share/bash-completion/completions $(prefix)/share/zsh/site-functions \
		$(prefix)/share/mikoshi
	install $(progs) $(prefix)/bin
	$(if $(cuda_so),install -d $(prefix)/lib && install $(cuda_so) $(prefix)/lib)
	find recipes -name data -prune -o -type f ! -name all.conf -print | \
		xargs cp --parents -t $(prefix)/share/mikoshi
	for t in $(TOOLS); do \
		$(B)/$$t --completion bash >$(prefix)/share/bash-completion/completions/$$t && \
		$(B)/$$t --completion zsh >$(prefix)/share/zsh/site-functions/_$$t || exit 1; done
	install -m 644 $(wildcard man/*.1) $(prefix)/share/man/man1
	install -m 644 $(wildcard man/*.5) $(prefix)/share/man/man5
	install -m 644 $(wildcard man/*.7) $(prefix)/share/man/man7
	install -m 644 $(wildcard man/ja/man7/*.7) $(prefix)/share/man/ja/man7
man: $(progs)
	@B=$(B) sh man/options.sh
dist:
	git archive --prefix=mikoshi-$(VERSION)/ HEAD | gzip -n >mikoshi-$(VERSION).tar.gz
-include packaging/rules.mk
compile_commands.json:
	bear -- $(MAKE) -B all
clean:
	rm -rf build build-*
help:
	@echo 'all (default)  test  test-unit  test-bats  test-parsers  test-parity  parity-all  parity-hosts  hosts-matrix  hosts-mutants' \
		' test-porting BLOCKS=FILE  test-golden GOLDEN=DIR  test-hf PYTHON= GOLDEN=DIR  test-extend ONLY=KIND  test-aarch64  test-gpu  faults N=1000  sim' \
		' sim-rate  sim-mutants  lint  test-megatron PYTHON= MEGATRON=DIR FAMILY=  test-tokenizers PYTHON= N=10000  test-boards PYTHON=  test-surgery PYTHON= MEGATRON=DIR GOLDEN=DIR' \
		' test-mutations PYTHON= FAMILY=  test-kinds PYTHON= KIND=  test-tasks PYTHON= TOKENIZERS=DIR' \
		' format  fuzz  bench  published PUBLISHED=FILE  bench-gpu  bench-attention PYTHON= SHAPES=  bench-offload  bench-watch  man  config'
	@echo 'install PREFIX= DESTDIR=  dist  bundle BUNDLE_MPI=host|own  deb  sbom  test-packaging' \
		' compile_commands.json  clean'
	@echo 'variables: V=1  CUDA=0|1|auto  SAN=address,undefined  DEBUG=1  CI=1  OPT=FLAGS'
	@echo 'another machine: CROSS_COMPILE=aarch64-linux-gnu-  SYSROOT=DIR  RUN="qemu-aarch64 -L DIR"'
	@echo 'CUDA: NVCC=PATH (its toolkit is used)  CUDA_ARCH="$(CUDA_ARCH)"' \
		'(compute capabilities; V100: 70 and an nvcc of CUDA 12)'

Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-4s %s\n' '$(1)' '$(2)')
force:
.PHONY: all config tests test test-unit test-bats test-parsers test-parity parity-all parity-hosts hosts-matrix hosts-mutants \
	test-golden test-porting test-hf test-mutations test-kinds test-tasks test-tokenizers test-megatron test-surgery test-boards test-extend \
	test-aarch64 test-gpu faults sim sim-rate \
	sim-mutants sim-mutants-made lint format fuzz bench published \
	bench-gpu bench-attention bench-offload bench-watch install man \
	dist clean help force
-include $(shell find $(B) -name '*.d' 2>/dev/null)
