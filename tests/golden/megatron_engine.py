"""megatron_engine.py - what linear attention of Megatron-LM needs from Transformer Engine and FLA, on the CPU

Megatron-LM builds layers with linear attention for Transformer Engine alone. Here a norm, a norm with a linear that follows,
the L2 norm of FLA and its convolution are spelled out in torch, by the names and in the order of registration of theirs; the
rule itself is Megatron-LM's own torch_chunk_gated_delta_rule, and so are its projections, gates and layers.
"""
import torch
import torch.nn.functional as F


class Norm(torch.nn.Module):
    """RMSNorm of TENorm; weights may be stored less 1."""

    returns_residual = False

    def __init__(self, config, hidden_size, eps=1e-5, **_):
        super().__init__()
        self.eps, self.shift = eps, float(config.layernorm_zero_centered_gamma)
        self.weight = weight_of(config, hidden_size)

    def forward(self, x):
        return normed(x, self.weight + self.shift, self.eps)


def weight_of(config, size):
    """As with Transformer Engine, gradients of its parts are summed over tensor ranks that share a sequence."""
    w = torch.nn.Parameter(torch.ones(size, dtype=config.params_dtype) - float(config.layernorm_zero_centered_gamma))
    w.sequence_parallel = config.sequence_parallel
    return w


def normed(x, w, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)


def l2norm(x, dim=-1, eps=1e-6):
    return x * torch.rsqrt(x.square().sum(dim, keepdim=True) + eps)


def causal_conv1d(x, weight, bias, activation, **_):
    """Of [batch, positions, channels]."""
    taps = weight.shape[1]
    y = F.conv1d(F.pad(x.transpose(1, 2), (taps - 1, 0)), weight[:, None], bias, groups=weight.shape[0])
    return F.silu(y).transpose(1, 2), None


def stand_in():
    """Gives Megatron-LM these parts."""
    import megatron.core.models.gpt.experimental_attention_variant_module_specs as specs
    import megatron.core.models.gpt.gpt_layer_specs as layers
    from megatron.core.models.backends import LocalSpecProvider
    from megatron.core.ssm.gated_delta_net import common, gdn
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear

    class NormedLinear(ColumnParallelLinear):
        """TELayerNormColumnParallelLinear."""

        def __init__(self, input_size, *args, config, **kwargs):
            super().__init__(input_size, *args, config=config, **kwargs)
            self.eps, self.shift = config.layernorm_epsilon, float(config.layernorm_zero_centered_gamma)
            self._parameters = {"layer_norm_weight": weight_of(config, input_size), **self._parameters}

        def forward(self, x, *args, **kwargs):
            return super().forward(normed(x, self.layer_norm_weight + self.shift, self.eps), *args, **kwargs)

    class Provider(LocalSpecProvider):
        def fuse_layernorm_and_linear(self):
            return True

        def column_parallel_layer_norm_linear(self):
            return NormedLinear

        def layer_norm(self, **_):
            return Norm

    common.HAVE_FLA, common.l2norm = True, l2norm
    gdn.causal_conv1d, gdn.chunk_gated_delta_rule = causal_conv1d, gdn.torch_chunk_gated_delta_rule
    layers.TESpecProvider = Provider
    specs._get_backend_spec_provider = lambda config: Provider()
