"""Where layers sit in a pipeline."""

import numpy as np
import pytest
from conftest import dense_model
from hypothesis import given
from hypothesis import strategies as st

from simkernel.stages import chunk_sizes, given_sizes, head_layers, stage_layers


@given(layers=st.integers(1, 130), chunks=st.integers(1, 64), head=st.integers(0, 4))
def test_every_layer_sits_in_one_chunk_and_only_the_last_may_hold_just_the_head(
    layers, chunks, head
):
    """If false, layers would be lost or run twice, or a stage would idle for ever."""
    if chunks <= layers:
        sizes = chunk_sizes(layers, chunks, head)
        assert len(sizes) == chunks
        assert sum(sizes) == layers
        assert min(sizes[:-1], default=1) >= 1
        assert sizes[-1] >= (0 if head else 1)


@pytest.mark.parametrize(
    ("layers", "chunks", "head", "sizes"),
    [
        (126, 16, 1, [7, *[8] * 14, 7]),
        (61, 16, 2, [3, *[4] * 14, 2]),
        (80, 4, 0, [20] * 4),
        (32, 4, 2, [8, 9, 8, 7]),
        (61, 16, 4, [*[4] * 15, 1]),
    ],
)
def test_the_stage_with_the_head_has_fewer_layers(layers, chunks, head, sizes):
    """If false, the head would slow every micro-batch down and the plan with it."""
    assert chunk_sizes(layers, chunks, head) == sizes


def test_a_head_of_a_large_vocabulary_weighs_some_layers():
    """Llama-3-8B: 525 M parameters of head against 218 M of a layer."""
    assert head_layers(dense_model()) == 2


def test_all_three_stages_are_the_same_one_without_a_pipeline():
    """If false, a single stage would be priced as several."""
    counts = stage_layers(dense_model(layers=5), np.array([1]), np.array([1]))
    assert counts.tolist() == [[[5.0], [5.0], [5.0]]]


def test_a_stack_that_cuts_evenly_gives_the_stage_of_the_head_as_many_layers():
    """Runs of 2020 to 2022 waited for their head: Megatron-LM refused layers left over."""
    model, stages = dense_model(layers=32), np.array([4])
    even = stage_layers(model, stages, np.array([1]), is_even=True)
    assert even[0, :, 0].tolist() == [8.0, 8.0, 8.0]
    assert stage_layers(model, stages, np.array([1]))[0, 2, 0] == 7.0
    odd = np.array([5])
    uneven = stage_layers(model, odd, np.array([1]), is_even=True)
    assert uneven.tolist() == stage_layers(model, odd, np.array([1])).tolist()


@pytest.mark.parametrize(
    ("layers", "stages", "chunks", "ends", "sizes"),
    [
        (126, 16, 1, (7, 7), [7, *[8] * 14, 7]),
        (61, 4, 1, (13, 16), [13, 16, 16, 16]),
        (61, 4, 1, (0, 14), [15, 16, 16, 14]),
        (80, 2, 1, (42, 38), [42, 38]),
        (32, 4, 2, (6, 6), [3, 5, 5, 3, 3, 5, 5, 3]),
        (31, 4, 2, (5, 6), [3, 5, 5, 3, 2, 5, 5, 3]),
    ],
)
def test_given_layers_sit_on_their_stages_and_the_others_share_the_rest(
    layers, stages, chunks, ends, sizes
):
    """A launch file would tell Megatron-Core another cut than the one that was priced."""
    assert given_sizes(layers, stages, chunks, ends) == sizes


def test_a_given_cut_is_what_three_stages_are_priced_by():
    """The axes would change a name and no number."""
    model, four = dense_model(layers=32), np.array([4, 4])
    ends = (np.array([0, 10]), np.array([0, 4]))
    counts = stage_layers(model, four, np.array([1, 1]), given=ends)
    assert counts[:, :, 0].tolist() == [[8.0, 9.0, 7.0], [10.0, 9.0, 4.0]]
