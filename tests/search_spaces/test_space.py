"""Spaces: derived methods, keys, and messages for spaces that are malformed."""

import json

import numpy as np
import pytest

from search_spaces import (
    SPACES,
    Architecture,
    Choice,
    Domain,
    Integer,
    Reference,
    Registry,
    Repeat,
    SearchSpace,
    UnknownPluginError,
)


class Symmetric(SearchSpace):
    """``a`` and ``b`` may be exchanged."""

    decisions = {"a": Integer(0, 3), "b": Integer(0, 3)}

    def canonical(self, architecture):
        low, high = sorted(architecture.values())
        return Architecture({"a": low, "b": high})


class Sized(SearchSpace):
    def __init__(self, widths=(8, 16)):  # no super().__init__()
        self.decisions = {"depth": Integer(1, 2), "layer": Repeat("depth", {"width": Choice(*widths)})}


def test_a_space_with_arguments_needs_no_super_init():
    assert Sized().size() == 2 + 4
    assert Sized((8, 16, 32)).size() == 3 + 9


def test_operators_give_architectures():
    space, rng = Sized(), np.random.default_rng(0)
    parent = space.sample(rng)
    made = [parent, space.mutate(parent, rng), space.crossover(parent, parent, rng), *space.neighbours(parent)]
    assert all(type(architecture) is Architecture for architecture in made)
    for architecture in made:
        space.check(architecture)


def test_the_text_form_is_checked_and_put_in_order():
    space = Sized()
    assert str(space.parse("layer.0.width=8, depth=1")) == "depth=1, layer.0.width=8"
    with pytest.raises(ValueError, match=r"Sized.layer.0.width = 9: it must be one of 8, 16"):
        space.parse("depth=1, layer.0.width=9")


def test_the_key_is_of_the_canonical_form():
    space = Symmetric()
    keys = {space.key(Architecture({"a": a, "b": b})) for a in range(4) for b in range(4)}
    assert len(keys) == 10
    assert all(len(key) == 32 for key in keys)
    assert space.key(Architecture({"a": 1, "b": 2})) == space.key(Architecture({"b": 1, "a": 2}))


def test_keys_and_schema_hashes_never_change():
    # studies of older versions are answered by these
    assert Symmetric().key(Architecture({"a": 1, "b": 2})) == "b48465408132d0bff24c5d5f94bfe758"
    assert Symmetric().schema_hash() == "ddd2375d858617871cdcf49f4c81f72f"
    assert Sized().schema_hash() != Sized((8, 17)).schema_hash()


def test_a_schema_gives_the_domain_back():
    schema = json.loads(json.dumps(Sized().schema()))
    assert schema["space"] == "Sized"
    assert list(Domain.from_schema(schema).assignments()) == list(Sized().domain.assignments())


class Forgotten(SearchSpace):
    pass


class Empty(SearchSpace):
    decisions = {}


class Broken(SearchSpace):
    decisions = {"width": Choice(1, 2), "depth": Choice(1, when={"widht": 1})}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Forgotten, "space Forgotten declares no decisions; give decisions"),
        (Empty, "Empty declares no decisions"),
        (Broken, "Broken.depth: when = .* did you mean 'width'"),
    ],
)
def test_a_malformed_space_is_named(space, message):
    with pytest.raises(ValueError, match=message):
        space().size()


def test_a_space_without_build_says_so():
    with pytest.raises(NotImplementedError, match="space Symmetric has no build"):
        Symmetric().build(Architecture({"a": 0, "b": 0}), None)


def test_built_in_spaces_are_found_by_name():
    assert SPACES.names() == ["cell201", "convnet", "mlp", "mobile", "transformer"]
    assert Reference("mlp", {"depth": [1, 1], "widths": [8]}).make(SPACES).size() == 3 * 2 * 3
    with pytest.raises(UnknownPluginError, match="space 'convnte' is not known; did you mean 'convnet'"):
        SPACES.load("convnte")
    with pytest.raises(ValueError, match="space 'mlp' with .*unexpected keyword argument 'width'"):
        Reference("mlp", {"width": [8]}).make(SPACES)


def test_a_space_is_named_by_module_and_class_or_is_itself():
    registry = Registry("space", "none.such", {"sized": f"{__name__}:Sized"})
    assert registry.load("collections:OrderedDict.fromkeys")("a") == {"a": None}
    assert Reference(Sized, {"widths": (1, 2, 3)}).make(registry).size() == 3 + 9
    assert Reference(Sized).name.endswith(":Sized")
    ready = Sized()
    assert Reference(ready).make(registry) is ready
    with pytest.raises(ValueError, match="takes no arguments"):
        Reference(ready, {"widths": (1,)}).make(registry)
    with pytest.raises(UnknownPluginError, match="module 'no_such_module' does not import"):
        registry.load("no_such_module:Space")
    with pytest.raises(UnknownPluginError, match="module 'json' has no 'Space'"):
        registry.load("json:Space")


def test_a_space_has_no_features_of_its_own_unless_it_says_so():
    assert Sized().features(Sized().sample(np.random.default_rng(0))) == ()
