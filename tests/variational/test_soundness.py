"""NaN and infinity anywhere: stopped, traced, and nothing of them kept. Estimates that no source
could have: said."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import empowerment as emp
from empowerment.variational import training
from empowerment.variational.checkpoint import RunDirectory
from empowerment.variational.learner import Learner
from empowerment.worlds.table import TableWorld

TINY = {
    "updates": 12,
    "batch": 16,
    "hidden": 6,
    "features": 5,
    "layers": 2,
    "ema": 0.0,
    "optimiser": "adam",
    "progress": False,
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(training, "CHUNK", 4)
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def harmed(monkeypatch, at, harm):
    """A learner whose update number `at` is harmed."""
    original = Learner.update

    def update(self, state, batch):
        new, info = original(self, state, batch)
        return harm(state.updates == at, new, info)

    monkeypatch.setattr(Learner, "update", update)


def poison_loss(now, new, info):
    return new, info._replace(decoder_loss=jnp.where(now, jnp.nan, info.decoder_loss))


def poison_gradient(now, new, info):
    return new, info._replace(gradient=jnp.where(now, jnp.inf, info.gradient))


def poison_weights(now, new, info):
    psi = jax.tree.map(lambda x: jnp.where(now, jnp.nan, x), new.model.psi)
    model = jax.tree.unflatten(jax.tree.structure(new.model), [*jax.tree.leaves(new.model)])
    object.__setattr__(model, "psi", psi)
    return new._replace(model=model), info


@pytest.mark.parametrize(
    ("harm", "at", "words"),
    [
        (poison_loss, 6, r"decoder_loss became nan.* in update 7; nothing after update 4 is kept"),
        (poison_gradient, 9, r"gradient became inf.* in update 10; nothing after update 8 is kept"),
        (
            poison_weights,
            7,
            r"weights 'psi/.*' became NaN or infinity in update 8; nothing after update 4 is kept",
        ),
        (
            poison_weights,
            5,
            r"weights 'psi/.*before the loss was taken in update 7; nothing after update 4 is kept",
        ),
    ],
)
def test_nonsense_is_traced_and_the_last_good_state_stands(monkeypatch, tmp_path, harm, at, words):
    harmed(monkeypatch, at, harm)
    with pytest.raises(ValueError, match=words):
        emp.train(emp.make("tree", depth=2), 2, out=tmp_path, **TINY)
    directory = RunDirectory(tmp_path)
    directory.facts()
    arrays, facts, _ = directory.newest(metrics=True)
    assert facts["updates"] == at // 4 * 4
    assert all(np.isfinite(x).all() for x in arrays.values())
    assert np.isfinite(emp.load(tmp_path).landscape().nats).all()


def test_nonsense_of_gradients_through_a_model_is_named(monkeypatch):
    harmed(monkeypatch, 2, poison_loss)
    with pytest.raises(ValueError, match="decoder_loss became nan"):
        emp.train(emp.make("point-mass"), 1, method="reparameterised", **TINY)


class Murky(TableWorld):
    """Shows NaN at states from `first` on; too large to be tabulated and looked at as a whole."""

    def __init__(self, first):
        size = 3000
        successors = (np.arange(size)[:, None] + [[1, 2]]) % size
        super().__init__(
            successors[:, :, None], np.ones((size, 2, 1)), "murky", shown=np.zeros(1, np.int32)
        )
        self._first = first

    def observe(self, state):
        xp = np if isinstance(state, np.ndarray | np.generic) else jnp
        angle = xp.asarray(state)[..., None] * (2 * np.pi / self.size)
        seen = xp.concatenate([xp.sin(angle), xp.cos(angle)], -1)
        return xp.where(xp.asarray(state)[..., None] >= self._first, np.nan, seen).astype(
            np.float32
        )


def test_an_observation_that_is_no_number_is_named(monkeypatch):
    """Greedy walkers come to it."""
    monkeypatch.setattr("empowerment.variational.collect.LARGEST_HOST_TABLE", 2048)
    monkeypatch.setattr("empowerment.variational.collect.RESET_PROBABILITY", 0.0)
    settings = {**TINY, "updates": 120}
    with pytest.raises(ValueError, match=r"an observation was NaN or infinity in update \d+"):
        emp.train(Murky(first=110), 2, **settings)
    with pytest.raises(ValueError, match=r"observations \(observe\) contain NaN or infinity"):
        emp.train(Murky(first=0), 2, **settings)


def test_impossible_estimates_are_reported(tmp_path, capsys):
    from empowerment.cli import report_impossible

    est = emp.load(Path(__file__).parent / "runs" / "format-1")
    most = 2 * np.log(2)
    values = np.array([-0.1, 0.0, 0.5, most, most + 0.1, np.nan])
    assert est.impossible(values).tolist() == [True, False, False, False, True, True]
    land = est.landscape()
    object.__setattr__(land, "nats", values)
    assert report_impossible(est, land) == 3
    assert "3 of" in capsys.readouterr().err
