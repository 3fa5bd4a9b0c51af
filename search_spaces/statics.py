"""What can be known of a network before a device is used: it is built on torch's meta device and counted."""

from typing import TYPE_CHECKING

from search_spaces.bound import Infeasible
from search_spaces.signature import Signature
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture

if TYPE_CHECKING:
    from torch.nn import Module


class MetaBuildError(Exception):
    """A network could not be built without data, for the reason in ``original``; built for real, it may be sound."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(f"building on the meta device failed ({type(original).__name__}: {original})")
        self.original = original


def meta_network(space: SearchSpace, architecture: Architecture, signature: Signature) -> "Module":
    """Build the network on the meta device: modules and shapes, no storage.

    Raises `Infeasible` as the space did, and `MetaBuildError` for any other exception, and where parameters would get
    their shape from data (lazy modules).
    """
    import torch

    from search_spaces.garbage_collection import collection_paused
    from search_spaces.meta_device import MetaDevice

    try:
        with collection_paused(), MetaDevice():
            network = space.build(architecture, signature)
        if not isinstance(network, torch.nn.Module):
            raise TypeError(f"build() returned a {type(network).__name__}, not a torch.nn.Module")
        if any(map(torch.nn.parameter.is_lazy, network.parameters())):
            raise TypeError("parameters of lazy modules have no shape before data comes")
    except Infeasible:
        raise
    except (Exception, SystemExit) as error:
        raise MetaBuildError(error) from error
    return network


def count_parameters(network: "Module") -> int:
    """Number of elements of all parameters, shared ones counted once."""
    return sum(parameter.numel() for parameter in network.parameters())


def static_metrics(space: SearchSpace, architecture: Architecture, signature: Signature) -> dict[str, float]:
    """Return ``{"parameters": n}`` of the network on the meta device; raises as `meta_network`."""
    return {"parameters": count_parameters(meta_network(space, architecture, signature))}
