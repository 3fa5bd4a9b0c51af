import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.batches import Tensors, batch_count, epoch_batches, share
from trainers.schedules import warm_up_cosine


def noise(inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return inputs + torch.rand(inputs.shape, generator=generator)


def epoch(samples: int, batch_size: int, rank: int = 0, ranks: int = 1, number: int = 0) -> list[torch.Tensor]:
    data = Tensors(torch.arange(float(samples)).unsqueeze(1), torch.arange(samples))
    batches = epoch_batches(data, batch_size, seed=3, epoch=number, augment=noise, device="cpu", rank=rank, ranks=ranks)
    return [torch.cat([batch.inputs, batch.targets.unsqueeze(1)], 1) for batch in batches]


@settings(deadline=None)
@given(samples=st.integers(1, 60), batch_size=st.integers(1, 70), ranks=st.integers(1, 5))
def test_ranks_share_exactly_the_batches_of_one(samples: int, batch_size: int, ranks: int) -> None:
    alone = epoch(samples, batch_size)
    parts = [epoch(samples, batch_size, rank, ranks) for rank in range(ranks)]
    assert len(alone) == batch_count(samples, batch_size)
    assert max(map(len, alone)) <= batch_size
    assert max(map(len, alone)) - min(map(len, alone)) <= 1
    for number, batch in enumerate(alone):
        assert torch.equal(torch.cat([part[number] for part in parts]), batch)
    seen = torch.cat(alone)[:, 1]
    assert sorted(seen.tolist()) == list(range(samples))


def test_order_and_augmentation_depend_on_seed_and_epoch_alone() -> None:
    first, again, later = (torch.cat(epoch(50, 8, number=number)) for number in (4, 4, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first[:, 1], later[:, 1])
    assert not torch.equal(first[:, 0] - first[:, 1], later[:, 0] - later[:, 1])


@given(count=st.integers(0, 1000), ranks=st.integers(1, 40))
def test_shares_tile_and_are_even(count: int, ranks: int) -> None:
    parts = [share(count, rank, ranks) for rank in range(ranks)]
    assert [first for first, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == count
    sizes = [end - first for first, end in parts]
    assert sorted(sizes, reverse=True) == sizes
    assert sizes[0] - sizes[-1] <= 1


def test_schedule() -> None:
    factors = [warm_up_cosine(step, 100, 10) for step in range(100)]
    assert factors[:10] == [(step + 1) / 11 for step in range(10)]
    assert factors[10] == max(factors) == 1
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert 0 < factors[-1] < 0.001
    assert abs(factors[55] - 0.5) < 1e-9
