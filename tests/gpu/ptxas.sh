#!/bin/sh
# ptxas.sh - linear attention, and attention for compute capability 9.0, compile without registers
# in memory and without wgmma that the assembler issues one by one (C75xx): both cost most of the
# speed
#
# Heads of 64 columns with dropout (weighing of 2 in the names) may have 256 bytes in memory: beside
# the drawing these cost nothing that was measured.
#
# It needs nvcc, and no GPU.
set -u
: "${NVCC:=nvcc}"
command -v "$NVCC" >/dev/null || { echo "skipped: no $NVCC"; exit 0; }
cd "${TOP:-.}" || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
checked=0
for file in train/cuda/attention/hopper_*.cu train/cuda/delta_*.cu; do
	"$NVCC" -std=c++17 -O3 -I. -gencode arch=compute_90a,code=sm_90a -Xptxas -v -cubin \
		-o "$dir/cubin" "$file" >"$dir/said" 2>&1 || { cat "$dir/said"; exit 1; }
	kernels=$(grep -c ' bytes spill stores' "$dir/said")
	[ "$kernels" -gt 0 ] || { echo "$file: ptxas tells of no kernel"; exit 1; }
	awk '/\(C75[0-9]+\)/ { print; found = 1 }
		/Compiling entry function/ { most = /Li64EL8weighing2E/ ? 256 : 0 }
		/bytes spill stores/ {
			for (i = 2; i <= NF; i++)
				if ($i == "bytes" && $(i - 1) + 0 > most) { print; found = 1 }
		}
		END { exit found }' "$dir/said" || exit 1
	checked=$((checked + kernels))
done
echo "$checked kernels"
