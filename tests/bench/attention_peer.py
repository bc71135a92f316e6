"""attention_peer.py OBJECT [TEXT]...

Attention of our own for Hopper beside PyTorch's, in one process on the same tensors and stream.
OBJECT is BUILD/tests/bench/attention_peer.so; with TEXT only shapes whose names have one of them
are measured. Rows, tab-separated: TFLOP/s of ours, in fixed order, and of another, forward and
backward; ours over the other, the median of the ratios of nine rounds that follow five seconds of
load, in each of which every implementation has its turn and another is the first; the squared
difference of results over their squared size. Half the square of scores is counted, of documents
what is seen. q, k and v are columns of one array, [position, sample, head, column]. Without PyTorch
or a GPU of compute capability 9.0 it says so and succeeds.
"""
import ctypes
import inspect
import statistics
import sys
import time

LOAD, ROUNDS, QUEUE = 5, 9, 20
EQUAL = [1024] * 16
MIXED = [1500, 77, 4096, 200, 3000, 600, 2500, 311, 900, 2000, 1200]
# Samples, heads, groups, positions, columns of a head, documents of the only sample.
SHAPES = [
    (64, 12, 12, 1024, 64, None),
    (16, 25, 25, 1024, 64, None),
    (16, 32, 8, 2048, 64, None),
    (8, 32, 8, 4096, 64, None),
    (4, 32, 8, 4096, 128, None),
    (2, 32, 8, 8192, 128, None),
    (1, 32, 8, 16384, 128, EQUAL),
    (1, 32, 8, 16384, 128, MIXED),
    (1, 32, 8, 16384, 64, EQUAL),
    (1, 32, 8, 16384, 64, MIXED),
]


def skip(why):
    print("skipped:", why)
    sys.exit(0)


try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    skip(error)
try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:
    varlen_attn = None


class Call(ctypes.Structure):
    """struct peer_call of tests/bench/peer/attention.c."""
    _fields_ = (
        [(name, ctypes.c_void_p) for name in (
            "q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv", "delta", "work", "first")]
        + [(name, ctypes.c_int64) for name in (
            "row", "positions", "micro_batch", "num_heads", "num_groups", "head_dim")]
        + [("scale", ctypes.c_double), ("stream", ctypes.c_void_p), ("backward", ctypes.c_int32)])


class Problem:
    """The tensors of a shape."""

    def __init__(self, b, n, g, s, d, documents):
        self.b, self.n, self.g, self.s, self.d, self.documents = b, n, g, s, d, documents
        torch.manual_seed(1)
        self.qkv = torch.randn(s, b, n + 2 * g, d, device="cuda", dtype=torch.bfloat16)
        self.dout = torch.randn(s, b, n, d, device="cuda", dtype=torch.bfloat16)
        squares = sum(x * x for x in documents) if documents else b * s * s
        self.flops = 2 * squares * n * d
        self.name = f"B{b} H{n}/{g} S{s} D{d}"
        if documents:
            self.name += f" in documents of {'1024' if documents is EQUAL else '77-4096'}"

    def heads(self):
        """q, k and v, views of one array."""
        return self.qkv.split([self.n, self.g, self.g], dim=2)


class Ours:
    """The kernels for Hopper, by the C entry."""

    def __init__(self, library, peer, p):
        self.library, self.peer = library, peer
        self.out, self.dqkv = torch.empty_like(p.dout), torch.empty_like(p.qkv)
        self.lse, self.delta = (
            torch.empty(p.b * p.n, p.s, device="cuda", dtype=torch.float32) for _ in range(2))
        q, k, v = p.heads()
        self.gradients = self.dqkv.split([p.n, p.g, p.g], dim=2)
        pointers = {
            "q": q, "k": k, "v": v, "out": self.out, "lse": self.lse, "dout": p.dout,
            "dq": self.gradients[0], "dk": self.gradients[1], "dv": self.gradients[2],
            "delta": self.delta}
        self.call = Call(
            row=(p.n + 2 * p.g) * p.d, positions=p.s, micro_batch=p.b, num_heads=p.n,
            num_groups=p.g, head_dim=p.d, scale=p.d ** -0.5,
            stream=torch.cuda.current_stream().cuda_stream,
            **{name: tensor.data_ptr() for name, tensor in pointers.items()})
        if p.documents:
            starts = torch.tensor(offsets(p.documents)[:-1], device="cuda", dtype=torch.int32)
            self.first = starts.repeat_interleave(torch.tensor(p.documents, device="cuda"))
            self.call.first = self.first.data_ptr()
        size = library.attention_peer_workspace(ctypes.byref(self.call))
        self.work = torch.empty(size, device="cuda", dtype=torch.uint8)
        self.call.work = self.work.data_ptr()

    def run(self, backward):
        self.call.backward = backward
        why = self.library.attention_peer_run(self.peer, ctypes.byref(self.call))
        if why:
            raise RuntimeError(why.decode())

    def forward(self):
        self.run(0)

    def backward(self):
        self.run(1)

    def results(self):
        """out, dq, dk and dv, [position, sample, head, column]."""
        return [self.out, *self.gradients]


def offsets(lengths):
    at = [0]
    for length in lengths:
        at.append(at[-1] + length)
    return at


class Theirs:
    """A function of q, k and v by PyTorch, of leaves that share the memory of ours."""

    def __init__(self, p):
        self.leaves = [x.detach().requires_grad_() for x in self.views(p)]
        self.dout = self.dout_of(p)
        self.out = self.attend()
        self.gradients = None

    def forward(self):
        self.attend()  # as in training: the backward pass's statistics are stored too

    def backward(self):
        self.gradients = torch.autograd.grad(
            self.out, self.leaves, self.dout, retain_graph=True)


class Sdpa(Theirs):
    """scaled_dot_product_attention by one of its backends, which takes [sample, head, position,
    column]."""

    def __init__(self, p, backend):
        self.backend, self.grouped = backend, p.n != p.g
        super().__init__(p)

    def views(self, p):
        return [x.permute(1, 2, 0, 3) for x in p.heads()]

    def dout_of(self, p):
        return p.dout.permute(1, 2, 0, 3)

    def attend(self):
        with sdpa_kernel(self.backend):
            return torch.nn.functional.scaled_dot_product_attention(
                *self.leaves, is_causal=True, enable_gqa=self.grouped)

    def results(self):
        return [x.permute(2, 0, 1, 3) for x in (self.out, *self.gradients)]


class Varlen(Theirs):
    """varlen_attn, which takes documents [position, head, column]; how it is told of groups and of
    the diagonal depends on the version. Those that know no groups may need a copy of k and v for
    each head."""

    def __init__(self, p, backend, repeated=False):
        known = inspect.signature(varlen_attn).parameters
        self.options = {"is_causal": True} if "is_causal" in known else {"window_size": (-1, 0)}
        if "enable_gqa" in known:
            self.options["enable_gqa"] = p.n != p.g
        self.copies = p.n // p.g if repeated else 1
        self.backend, self.longest = backend, max(p.documents)
        self.offsets = torch.tensor(offsets(p.documents), device="cuda", dtype=torch.int32)
        super().__init__(p)

    def views(self, p):
        q, k, v = (x[:, 0] for x in p.heads())
        if self.copies > 1:
            k, v = (x.repeat_interleave(self.copies, 1) for x in (k, v))
        return q, k, v

    def dout_of(self, p):
        return p.dout[:, 0]

    def attend(self):
        with sdpa_kernel(self.backend):
            return varlen_attn(
                *self.leaves, self.offsets, self.offsets, self.longest, self.longest,
                **self.options)

    def results(self):
        dq, *others = self.gradients
        dk, dv = (x.float().unflatten(1, (-1, self.copies)).sum(2) for x in others)
        return [x[:, None] for x in (self.out, dq, dk, dv)]


def others(p):
    """Of each of PyTorch's its name and what makes it."""
    cudnn, flash = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
    if not p.documents:
        return [("cuDNN", lambda: Sdpa(p, cudnn)), ("flash", lambda: Sdpa(p, flash))]
    if not varlen_attn:
        return []
    return [
        ("varlen_attn", lambda: Varlen(p, [cudnn, flash])),
        ("varlen_attn, repeated heads", lambda: Varlen(p, [cudnn, flash], True))]


def seconds(work):
    """Of a call in a queue of them, after some more that the queue begins with."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(QUEUE // 4):
        work()
    begin.record()
    for _ in range(QUEUE):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / QUEUE


def difference(a, b):
    """Of results by two implementations the largest squared error over squared size."""
    def error(x, y):
        x, y = x.detach().float(), y.detach().float()
        return float(((x - y) ** 2).sum() / (y ** 2).sum())
    return max(error(x, y) for x, y in zip(a.results(), b.results()))


def load(solvers):
    """Keeps the GPU at work until its clocks are those of work."""
    until = time.monotonic() + LOAD
    while time.monotonic() < until:
        for solver in solvers:
            seconds(solver.forward)
            seconds(solver.backward)


def measure(library, peer, p):
    """The rows of a shape."""
    solvers, failed = {"ours": Ours(library, peer, p)}, {}
    solvers["ours"].forward()
    solvers["ours"].backward()
    for name, make in others(p):
        try:
            solver = make()
            solver.backward()
            solvers[name] = solver
        except (RuntimeError, ValueError, TypeError) as why:
            failed[name] = str(why).strip().splitlines()[0]
    load(solvers.values())
    times = {(name, way): [] for name in solvers for way in ("forward", "backward")}
    for i in range(ROUNDS):
        names = list(solvers)
        names = names[i % len(names):] + names[:i % len(names)]
        for way in ("forward", "backward"):
            for name in names:
                times[name, way].append(seconds(getattr(solvers[name], way)))
    for name in solvers:
        if name == "ours":
            continue
        row = [p.name, name]
        for way, work in (("forward", p.flops), ("backward", 2.5 * p.flops)):
            own, other = times["ours", way], times[name, way]
            row += [
                f"{work / statistics.median(own) / 1e12:.0f}",
                f"{work / statistics.median(other) / 1e12:.0f}",
                f"{statistics.median(y / x for x, y in zip(own, other)):.3f}"]
        print(*row, f"{difference(solvers['ours'], solvers[name]):.1e}", sep="\t", flush=True)
    for name, why in failed.items():
        print(p.name, name, "not taken: " + why, sep="\t", flush=True)


def open_library(path):
    """The object and what its calls take; the reason where it does not serve."""
    library = ctypes.CDLL(path)
    why = ctypes.create_string_buffer(256)
    library.attention_peer_open.restype = ctypes.c_void_p
    library.attention_peer_open.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.attention_peer_workspace.restype = ctypes.c_uint64
    library.attention_peer_workspace.argtypes = [ctypes.POINTER(Call)]
    library.attention_peer_run.restype = ctypes.c_char_p
    library.attention_peer_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(Call)]
    peer = library.attention_peer_open(why, len(why))
    if not peer:
        skip(why.value.decode())
    return library, peer


def main(path, *texts):
    if not torch.cuda.is_available():
        skip("no GPU")
    torch.zeros(1, device="cuda")
    library, peer = open_library(path)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}")
    columns = [f"{way} {of}" for way in ("forward", "backward")
               for of in ("ours", "other", "ratio")]
    print("shape", "other", *columns, "difference", sep="\t")
    for shape in SHAPES:
        p = Problem(*shape)
        if not texts or any(text in p.name for text in texts):
            measure(library, peer, p)
        del p
        torch.cuda.empty_cache()


if len(sys.argv) < 2:
    sys.exit(__doc__)
main(*sys.argv[1:])
