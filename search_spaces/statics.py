"""What can be known of a network before a device is used: it is built on torch's meta device and counted."""

from search_spaces.bound import Infeasible
from search_spaces.signature import Signature
from search_spaces.space import SearchSpace
from search_spaces.values import Architecture


class MetaBuildError(Exception):
    """A network could not be built without data, for the reason in ``original``; built for real, it may be sound."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(f"building on the meta device failed ({type(original).__name__}: {original})")
        self.original = original


def static_metrics(space: SearchSpace, architecture: Architecture, signature: Signature) -> dict[str, float]:
    """Return ``{"parameters": n}``: the number of elements of all parameters, shared ones counted once.

    Raises `Infeasible` as the space did, and `MetaBuildError` for any other exception.
    """
    import torch

    try:
        with torch.device("meta"):
            module = space.build(architecture, signature)
        return {"parameters": sum(parameter.numel() for parameter in module.parameters())}
    except Infeasible:
        raise
    except (Exception, SystemExit) as error:
        raise MetaBuildError(error) from error
