"""The GPU's hop and its gradients: against the plain hop in float64, in Triton's interpreter, and as compiled."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

_PROGRAM = """
import torch
from blockhole.models.circulant import fourier_hop
from blockhole.models.blocks import BlockGeometry
from blockhole.models.hop_triton import fused_hop

generator = torch.Generator().manual_seed(1)
blockhole = [(2, 25, 2, 70, 22), (8, 16, 2, 33, 40), (1, 50, 2, 40, 5), (4, 40, 2, 10, 3)]
real = [(7, 1, 1, 65, 3), (1, 20, 1, 64, 70)]
for blocks, freqs, parts, batch, relations in blockhole + real:
    geometry = BlockGeometry(blocks, freqs, parts)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    vector = draw(batch, geometry.entity_width).requires_grad_()
    matrix = draw(relations, geometry.relation_width).requires_grad_()
    upstream = draw(batch, geometry.entity_width)
    relation = torch.randint(relations, (batch,), generator=generator)
    blocked = vector.view(batch, *geometry.entity_shape)
    true = fourier_hop(blocked, matrix[relation].view(batch, *geometry.relation_shape)).flatten(1)
    true.backward(upstream)
    v, w = vector.detach().float().requires_grad_(), matrix.detach().float().requires_grad_()
    ours = fused_hop(v, w, relation, geometry)
    ours.backward(upstream.float())
    for mine, theirs in ((ours, true), (v.grad, vector.grad), (w.grad, matrix.grad)):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=1e-5)
print("agree")
"""


@pytest.mark.slow
def test_the_hop_agrees_in_the_interpreter(interpreted: Callable[[str], None]) -> None:
    interpreted(_PROGRAM)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION:UserWarning")
def test_no_gradient_is_rounded_to_tf32() -> None:
    """The interpreter computes every product in full; what a GPU would do, only the compiled kernel says."""
    pytest.importorskip("triton", reason="Triton is not installed on this platform")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from blockhole.models.hop_triton import _collect

    arrays = dict.fromkeys(("vector", "upstream", "shares"), "*fp32") | {"relation": "*i64"}
    numbers = dict.fromkeys(("batch", "rows_per_share", "num_relations"), "i32")
    constants = {"B": 2, "M": 25, "PARTS": 2, "ROWS": 32, "LANES": 64, "RELATIONS": 32}
    types = {name: (arrays | numbers).get(name, "constexpr") for name in _collect.arg_names}
    compiled = triton.compile(ASTSource(_collect, types, constants), target=GPUTarget("cuda", 90, 32))
    products = re.findall(r"tt\.dot .*", compiled.asm["ttir"])
    assert len(products) == 2
    assert not [product for product in products if "tf32" in product]
    assert "tf32" not in compiled.asm["ptx"]
