"""The decoder against transformers: same weights, same logits, for any chunks."""

import pytest
import torch
from support.model import tiny_models
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.errors import ModelIntegrityError
from minivllm.runtime.model.decoder import Decoder


def assert_same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Equal within float32's rounding, relative to the size of the logits."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize("name", tiny_models.PEERS + tiny_models.MORE_PEERS)
def test_decoding_in_a_ragged_batch_gives_the_logits_of_transformers(name):
    peer = tiny_models.make_peer(name)
    run = tiny_models.PlannedRunner(tiny_models.load_into_ours(peer))
    sequences = [run.new(tiny_models.prompt(length, seed=length)) for length in (1, 5, 8, 33, 60)]
    late = run.new(tiny_models.prompt(21, seed=99))
    logits = run.run(*((sequence, len(sequence.token_ids)) for sequence in sequences))
    for step in range(12):
        for sequence, row in zip(sequences, logits, strict=False):
            assert_same(row, tiny_models.peer_logits(peer, sequence.token_ids))
            sequence.append_token(int(row.argmax()))
        # A late prompt is computed in chunks beside the others' decodes.
        chunks = [(late, (1, 3, 17)[step])] if step < 3 else []
        logits = run.run(*((sequence, 1) for sequence in sequences), *chunks)
        assert len(logits) == len(sequences) + (step == 2), "only the last chunk samples"
        if step == 2:
            assert_same(logits[-1], tiny_models.peer_logits(peer, late.token_ids))


@pytest.mark.parametrize(("name", "dtype"), [("qwen3", torch.bfloat16), ("llama", torch.float16)])
def test_half_precision_runs_and_stays_near_float32(name, dtype):
    peer = tiny_models.make_peer(name)
    run = tiny_models.PlannedRunner(tiny_models.load_into_ours(peer, dtype))
    sequences = [run.new(tiny_models.prompt(length, seed=length)) for length in (1, 30, 47)]
    logits = run.run(*((sequence, len(sequence.token_ids)) for sequence in sequences))
    for _ in range(3):
        assert logits.dtype == torch.float32
        for sequence, row in zip(sequences, logits, strict=True):
            expected = tiny_models.peer_logits(peer, sequence.token_ids)
            assert (row - expected).abs().max() < 0.1 * expected.abs().max()
            sequence.append_token(int(row.argmax()))
        logits = run.run(*((sequence, 1) for sequence in sequences))


# ---- loading ----


def test_tensors_may_come_in_any_order_and_dtype_with_a_tied_head_and_old_buffers():
    peer = tiny_models.make_peer("llama")
    tensors = dict(reversed(list(peer.state_dict().items())))
    assert "lm_head.weight" in tensors, "transformers lists the tied head; a file may not"
    for is_listed in (True, False):
        if not is_listed:
            del tensors["lm_head.weight"]
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
        decoder = Decoder(tiny_models.config_of(peer), torch.float32, "cpu")
        decoder.load_weights((name, tensor.double()) for name, tensor in tensors.items())
        run = tiny_models.PlannedRunner(decoder)
        assert_same(
            run.run((run.new(tiny_models.prompt(10)), 10))[0],
            tiny_models.peer_logits(peer, tiny_models.prompt(10)),
        )


@pytest.mark.parametrize(
    ("family", "name", "shown"),
    [
        ("qwen3", "1.self_attn.k_proj", ""),
        ("gemma3", "4.pre_feedforward_layernorm", ""),
        ("phi3", "0.mlp.gate_up_proj", ""),
        ("olmo2", "1.self_attn.q_norm", ""),
        ("qwen3-moe", "1.mlp.experts.3.up_proj", ""),
        ("olmoe", "0.mlp.gate", ""),
        ("granite-moe", "1.block_sparse_moe.router.layer", "1.mlp.gate"),
        ("granite-moe", "0.block_sparse_moe.input_linear", "0.mlp.experts"),
        ("granite-moe", "1.block_sparse_moe.output_linear", "1.mlp.experts"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_with_the_name_of_the_tensor(family, name, shown):
    peer = tiny_models.make_peer(family)
    tensors, name = tiny_models.checkpoint_of(peer), f"model.layers.{name}.weight"
    tensor = tensors.pop(name)

    def refusal(*others: tuple[str, torch.Tensor]) -> str:
        decoder = Decoder(tiny_models.config_of(peer), torch.float32, "cpu")
        with pytest.raises(ModelIntegrityError) as error:
            decoder.load_weights([*tensors.items(), *others])
        return str(error.value)

    assert (shown or name) in refusal()
    assert (shown or name) in refusal((name, tensor), (name, tensor))
    assert "model.extra" in refusal((name, tensor), ("model.extra", torch.zeros(1)))
    whole = list(tensor.shape)
    for wrong in (tensor[1:], tensor[..., 1:], tensor[None], tensor[0], tensor.flatten()[0]):
        message = refusal((name, wrong))
        # Granite's tensors are split before their shapes are compared.
        assert shown or all(words in message for words in (name, str([*wrong.shape]), str(whole)))
    bias = name.replace("weight", "bias")
    assert bias in refusal((name, tensor), (bias, torch.zeros(whole[0])))
