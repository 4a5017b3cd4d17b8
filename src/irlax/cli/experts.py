"""`irlax expert train` and `irlax demos collect`: experts, and their demonstrations."""

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
    algorithm: Annotated[Algorithm, typer.Option(help="The learning algorithm.")] = "ppo",
    steps: Annotated[int | None, typer.Option(help="Environment steps; by default, those of the algorithm.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="The number of policies to train together; the best is kept.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="The weight of entropy; the lower, the closer to the best return.")
    ] = None,
    key: Key = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in --out.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write event files for TensorBoard.")] = False,
    num: Annotated[int, typer.Option(help="Episodes to evaluate the expert with.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Train an expert on the environment's own reward; print its mean return.

    \b
    irlax expert train cartpole --out experts/cartpole
    """
    import jax.random as jr

    from irlax import checks
    from irlax.cli import sampling
    from irlax.envs import evaluate
    from irlax.loggers import TensorBoard
    from irlax.rl import PPO, SAC
    from irlax.run_folder import RunFolder

    checks.count("num", num)
    settings: Any = {} if temperature is None else {"temperature": temperature}
    learner = PPO(**settings) if algorithm == "ppo" else SAC(**settings)
    environment = sampling.make_env(env, learner.num_envs)
    train_key, evaluation_key = jr.split(jr.key(key))
    result = learner.train(
        environment,
        key=train_key,
        steps=steps,
        seeds=seeds,
        run=RunFolder(out, resume=resume, loggers=(TensorBoard(),) if tensorboard else ()),
    )
    returns = evaluate(environment, result.best_policy, num=num, key=evaluation_key)
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
    """Write episodes of a trained policy, with observations, actions and true rewards.

    \b
    irlax demos collect cartpole --policy experts/cartpole --num 10 --out demos.npz
    """
    import jax.random as jr

    from irlax import storage
    from irlax.cli.sampling import make_env
    from irlax.demos import write_demos
    from irlax.envs import collect as collect_episodes
    from irlax.rl import load_policy

    storage.known_suffix(out, (".npz",))
    demos = collect_episodes(make_env(env, 1), load_policy(policy), num, key=jr.key(key))
    write_demos(out, demos)
    returns = demos.returns
    text = f"{env}: {num} episodes, return {returns.mean():.1f} ± {returns.std():.1f}, in {out}"
    emit(text, _record(env, returns) | {"demos": str(out)}, as_json=as_json)


def _record(env: str, returns: Any) -> dict[str, Any]:
    """The record of returns, for JSON."""
    mean, deviation = float(returns.mean()), float(returns.std())
    return {"env": env, "episodes": len(returns), "return_mean": mean, "return_sd": deviation}
