"""`irlax expert train` and `irlax demos collect`: experts, and what they demonstrate."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from irlax.cli.options import AsJson, Key, emit

Algorithm = Literal["ppo", "sac"]
_ENV = "An environment: cartpole, pendulum, mountain-car, acrobot, point-maze, gymnasium:ID, …"


def train(
    env: Annotated[str, typer.Argument(help=_ENV)],
    *,
    out: Annotated[Path, typer.Option(help="The folder for the policy, the log and checkpoints.")],
    algorithm: Annotated[Algorithm, typer.Option(help="How to learn.")] = "ppo",
    steps: Annotated[int | None, typer.Option(help="Environment steps; by default, the algorithm's own.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Train so many side by side and keep the best.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Less of it comes closer to the best return; by default, the algorithm's own.")
    ] = None,
    key: Key = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard's events.")] = False,
    num: Annotated[int, typer.Option(help="Episodes to judge the expert by.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Train an expert for the environment's own reward; print what its episodes return.

    \b
    irlax expert train cartpole --out experts/cartpole
    """
    import jax.random as jr

    from irlax import checks
    from irlax.cli import sampling
    from irlax.envs import evaluate
    from irlax.rl import PPO, SAC
    from irlax.run_folder import RunFolder

    checks.count("num", num)
    settings: Any = {} if temperature is None else {"temperature": temperature}
    learner = PPO(**settings) if algorithm == "ppo" else SAC(**settings)
    made = sampling.made(env, learner.num_envs)
    train_key, judge_key = jr.split(jr.key(key))
    result = learner.train(
        made,
        key=train_key,
        steps=steps,
        seeds=seeds,
        run=RunFolder(out, resume=resume, tensorboard=tensorboard),
    )
    returns = evaluate(made, result.best_policy, num=num, key=judge_key)
    text = f"{env}: return {returns.mean():.1f} ± {returns.std():.1f} over {num} episodes; policy in {out}"
    emit(text, _record(env, returns) | {"policy": str(out)}, as_json=as_json)


def collect(
    env: Annotated[str, typer.Argument(help=_ENV)],
    *,
    policy: Annotated[Path, typer.Option(help="A folder that `irlax expert train` wrote, or a policy file (.npz).")],
    out: Annotated[Path, typer.Option(help="The demonstrations to write (.npz).")],
    num: Annotated[int, typer.Option(help="Episodes.")] = 10,
    key: Key = 0,
    as_json: AsJson = False,
) -> None:
    """Demonstrate: write episodes of a trained policy, with observations, actions and the true rewards.

    \b
    irlax demos collect cartpole --policy experts/cartpole --num 10 --out demos.npz
    """
    import jax.random as jr

    from irlax import storage
    from irlax.cli.sampling import made
    from irlax.demos import write_demos
    from irlax.envs import collect as act
    from irlax.rl import load_policy

    storage.known_suffix(out, (".npz",))
    acts = load_policy(policy)
    demos = act(made(env, 1), acts, num, key=jr.key(key))
    write_demos(out, demos)
    returns = demos.returns
    text = f"{env}: {num} episodes, return {returns.mean():.1f} ± {returns.std():.1f}, in {out}"
    emit(text, _record(env, returns) | {"demos": str(out)}, as_json=as_json)


def _record(env: str, returns: Any) -> dict[str, Any]:
    """What both commands tell machines."""
    mean, deviation = float(returns.mean()), float(returns.std())
    return {"env": env, "episodes": len(returns), "return_mean": mean, "return_sd": deviation}
