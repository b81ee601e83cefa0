"""PPO whose only reward is learned empowerment, compiled as a whole: the environment is a function
in JAX, and so is everything else.

    python examples/jax_ppo.py

The world is a step function. Its empowerment is learned from what the agent sees, checked against
exact values, and then is the reward inside one compiled loop. The picture shows where agents go.
"""

import argparse
import time
from collections import namedtuple
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import empowerment as emp

ROOMS = """
#############
#     #     #
#           #
#     #     #
## #### ### #
#     #     #
#     #     #
#           #
#     #     #
#############
"""

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--horizon", type=int, default=4, help="K of the empowerment that is learned")
options.add_argument("--updates", type=int, default=150, help="updates of PPO")
options.add_argument("--seeds", type=int, default=3, help="agents trained side by side")
options.add_argument("--out", type=Path, default=Path("jax_ppo.png"), help="picture to write")
options.add_argument("--quick", action="store_true", help="few updates")
args = options.parse_args()
COPIES, STEPS = 256, 32  # environments side by side, and the length of an episode
GAMMA, LAMBDA, CLIP, ENTROPY, RATE, EPOCHS, PARTS = 0.95, 0.95, 0.2, 0.01, 1e-3, 4, 8
updates = 3 if args.quick else args.updates

# --- the world, and its empowerment

free = jnp.array([[cell == " " for cell in row] for row in ROOMS.strip("\n").split("\n")])
moves = jnp.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])


def step(key, state, action):
    there = state + moves[action]
    return jnp.where(free[there[0], there[1]], there, state)


def see(state):
    return jnp.zeros(free.shape).at[state[0], state[1]].set(1.0).ravel()


world = emp.from_jax(step, jnp.array([1, 1]), len(moves), see, name="four-rooms")
exact = emp.exact(world, args.horizon)
settings = {"updates": 20, "batch": 64} if args.quick else {"updates": 2000, "batch": 512}
estimator = emp.train(world, args.horizon, **settings)
print("learned:", emp.compare(estimator.landscape(), exact))
cells = jnp.asarray(exact.states[0])


# --- the agent


def network(key, outputs):
    first, keys = jax.nn.initializers.he_normal(), jax.random.split(key, 3)
    sizes = enumerate([(free.size, 64), (64, 64), (64, outputs)])
    return [(first(keys[i], size), jnp.zeros(size[1])) for i, size in sizes]


def policy(agent, seen):
    return jax.nn.log_softmax(outputs(agent["policy"], seen))


def value(agent, seen):
    return outputs(agent["value"], seen)[..., 0]


def outputs(layers, x):
    for weights, biases in layers[:-1]:
        x = jnp.tanh(x @ weights + biases)
    return x @ layers[-1][0] + layers[-1][1]


Steps = namedtuple("Steps", "seen action log_prob value reward")


def act(agent, states, key):
    """One step of every copy."""
    keys = jax.random.split(key)
    seen = jax.vmap(see)(states)
    logits = policy(agent, seen)
    action = jax.random.categorical(keys[0], logits)
    log_prob = jnp.take_along_axis(logits, action[:, None], 1)[:, 0]
    after = jax.vmap(partial(step, keys[1]))(states, action)
    nats = estimator.model.empowerment(jax.vmap(see)(after), beta=1.0)
    return after, Steps(seen, action, log_prob, value(agent, seen), nats)


def advantages(steps, last):
    """Generalised advantage estimation, from the last step back."""

    def back(carry, now):
        advantage, value = carry
        error = now.reward + GAMMA * value - now.value
        advantage = error + GAMMA * LAMBDA * advantage
        return (advantage, now.value), advantage

    return jax.lax.scan(back, (jnp.zeros_like(last), last), steps, reverse=True)[1]


def loss(agent, steps, advantage):
    logits = policy(agent, steps.seen)
    log_prob = jnp.take_along_axis(logits, steps.action[:, None], 1)[:, 0]
    ratio = jnp.exp(log_prob - steps.log_prob)
    better = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.minimum(ratio * better, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * better)
    errors = value(agent, steps.seen) - (advantage + steps.value)
    entropy = -(jnp.exp(logits) * logits).sum(-1)
    return -clipped.mean() + 0.5 * (errors**2).mean() - ENTROPY * entropy.mean()


optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(RATE))


def update(carry, key):
    """Episodes from cells drawn at random, then some epochs of minibatches."""
    agent, memory = carry
    keys = jax.random.split(key, 3)
    states = cells[jax.random.randint(keys[0], (COPIES,), 0, len(cells))]
    states, steps = jax.lax.scan(
        lambda s, k: act(agent, s, k), states, jax.random.split(keys[1], STEPS)
    )
    last = value(agent, jax.vmap(see)(states))
    data = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (steps, advantages(steps, last)))

    def minibatch(carry, rows):
        agent, memory = carry
        gradient = jax.grad(loss)(agent, *jax.tree.map(lambda x: x[rows], data))
        change, memory = optimiser.update(gradient, memory)
        return (optax.apply_updates(agent, change), memory), None

    total = COPIES * STEPS
    orders = jax.vmap(lambda k: jax.random.permutation(k, total))(jax.random.split(keys[2], EPOCHS))
    carry, _ = jax.lax.scan(minibatch, (agent, memory), orders.reshape(EPOCHS * PARTS, -1))
    return carry, (steps.reward[-1].mean(), states)


@jax.jit
def train(key):
    """Everything, from the first weights to the last update."""
    keys = jax.random.split(key, 3)
    agent = {"policy": network(keys[0], len(moves)), "value": network(keys[1], 1)}
    keys = jax.random.split(keys[2], updates)
    return jax.lax.scan(update, (agent, optimiser.init(agent)), keys)[1]


began = time.perf_counter()
curves, ends = jax.block_until_ready(
    jax.vmap(train)(jax.random.split(jax.random.key(0), args.seeds))
)
taken = f"{args.seeds * updates * COPIES * STEPS:,} steps in {time.perf_counter() - began:.0f} s"
print(f"{args.seeds} agents, {taken} with compiling")

picture = np.full(free.shape, np.nan)
picture[tuple(np.asarray(cells).T)] = exact.nats
for seed in range(args.seeds):
    reached = picture[tuple(np.asarray(ends[seed, -1]).T)].mean()
    above = f"above {np.mean(exact.nats < reached):.0%} of the cells"
    print(f"seed {seed}: episodes end at {reached:.3f} nats of exact empowerment, {above}")

# --- the picture

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for seed in range(args.seeds):
    left.plot(np.asarray(curves[seed]), label=f"seed {seed}")
left.axhline(exact.nats.max(), color="0.4", label="highest of any cell (exact)")
left.set(xlabel="update", ylabel="learned empowerment (nats)", title="at the end of an episode")
left.legend()
shown = middle.imshow(picture)
middle.set(title=f"exact empowerment, K = {args.horizon}", xlabel="column", ylabel="row")
middle.locator_params(integer=True)
figure.colorbar(shown, label="nats")
often = np.zeros(free.shape)
np.add.at(often, tuple(np.asarray(ends[:, -10:]).reshape(-1, 2).T), 1)
shown = right.imshow(np.where(free, often / often.sum(), np.nan))
right.set(title="where the last episodes end", xlabel="column", ylabel="row")
right.locator_params(integer=True)
figure.colorbar(shown, label="share of episodes")
figure.savefig(args.out, dpi=100)
print(f"wrote {args.out}")
