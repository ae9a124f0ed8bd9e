"""Plays one episode at a time where the environment lives: in this thread, in another one, or in another process.

What a player is asked and what it answers are plain data, so that the same class serves in all three places. In a
process of its own it is `serve` that listens, and `RemotePlayer` that speaks to it.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import current_process, get_all_start_methods, get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from agent_r1_trainer.environments.contract import CheckedEnv, error_text
from agent_r1_trainer.flows.base import Assignment
from agent_r1_trainer.flows.env_shelf import EnvShelf, MakeEnv
from agent_r1_trainer.flows.episode import Episode
from agent_r1_trainer.generation.protocol import Generation, SamplingParams
from agent_r1_trainer.trajectory import Trajectory

__all__ = ["Player", "PlayerSetup", "RemotePlayer", "Turn", "WorkerDiedError", "refuse_in_worker", "serve"]

_GRACE = 10.0  # seconds for a process that has closed its environments, or was killed, to be gone
_GUARD = 'belongs under `if __name__ == "__main__":`'


class WorkerDiedError(RuntimeError):
    """An environment took its worker with it."""


@dataclass(frozen=True, slots=True)
class PlayerSetup:
    """All that a player is made of.

    Attributes:
        factories: Builds an environment of each name.
        tokenizer: Renders prompts and decodes replies.
        own: Replies of each environment's action format; see `PromptBuilder`.
        modules: Those that the environments' classes and their wrappers' are from.
        episode_kwargs: Further arguments of `Episode`.
    """

    factories: Mapping[str, MakeEnv]
    tokenizer: Any
    own: Mapping[str, str]
    modules: Sequence[str]
    episode_kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """What an episode waits for, or what became of it.

    Attributes:
        prompt_ids: The prompt that wants a reply.
        sampling: How to sample it.
        trajectory: The whole episode, once it has ended.
        spoilt: Its environment may be to blame for its failure, and is to be closed by `Player.discard`.
    """

    prompt_ids: list[int]
    sampling: SamplingParams
    trajectory: Trajectory | None = None
    spoilt: bool = False


class Player:
    """Plays in the thread that calls it.

    Args:
        setup: What it is made of.
    """

    def __init__(self, setup: PlayerSetup) -> None:
        self._setup = setup
        self._shelf = EnvShelf(setup.factories, len(setup.tokenizer), proven=frozenset(setup.own))
        self._episode: Episode | None = None
        self._spoilt: CheckedEnv | None = None
        self._sampling: SamplingParams | None = None

    def prepare(self, name: str) -> None:
        """Build an environment of that name if none is idle. What goes wrong, the episode meets."""
        self._shelf.idle(name)

    def begin(self, assignment: Assignment, sampling: SamplingParams, policy_version: int) -> Turn:
        """Begin an episode."""
        episode = self._episode = Episode(
            self._shelf.take(assignment.env),
            assignment,
            self._setup.tokenizer,
            stop_ids=sampling.stop_token_ids,
            own=self._setup.own[assignment.env],
            policy_version=policy_version,
            **self._setup.episode_kwargs,
        )
        self._sampling = sampling
        episode.begin()
        return self._turn(episode)

    def step(self, reply: Generation) -> Turn:
        """Pass a reply on, or that it cannot be had."""
        assert self._episode is not None
        self._episode.advance(reply)
        return self._turn(self._episode)

    def discard(self) -> str:
        """Close the environment of the episode that failed last. Returns what that raised, in words."""
        assert self._spoilt is not None
        env, self._spoilt = self._spoilt, None
        return self._shelf.discard(env)

    def close(self) -> None:
        """Close the environments."""
        self._episode = self._spoilt = None
        self._shelf.close()

    def kill(self) -> None:
        """End at once what can be ended from outside, whatever it is doing; from any thread. Here that is nothing."""

    def _turn(self, episode: Episode) -> Turn:
        """What comes next."""
        assert self._sampling is not None
        if episode.stop is None:
            return Turn(episode.prompt_ids, episode.sampling(self._sampling))
        trajectory = episode.trajectory()
        self._episode = None
        if episode.spoilt:  # closed by a call of its own: that it failed must be known also where closing never ends
            self._spoilt = episode.env
        else:
            self._shelf.give_back(episode.assignment.env, episode.env)
        return Turn([], self._sampling, trajectory, episode.spoilt)


class RemotePlayer:
    """Plays in a process of its own, which is started when it is first asked something.

    The process leads a group, so that what an environment has started goes with it when it is killed or dies.

    Args:
        setup: What the player there is made of, as `ForkingPickler` writes it.
        preload: Modules that are imported once for all such processes, where the system allows that.
    """

    def __init__(self, setup: bytes, preload: Sequence[str] = ()) -> None:
        self._setup = setup
        self._preload = [__name__, *preload]
        self._process: Any = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._killed = False

    def prepare(self, name: str) -> None:
        """See `Player.prepare`."""
        self._ask("prepare", name)

    def begin(self, assignment: Assignment, sampling: SamplingParams, policy_version: int) -> Turn:
        """See `Player.begin`."""
        return self._ask("begin", assignment, sampling, policy_version)

    def step(self, reply: Generation) -> Turn:
        """See `Player.step`."""
        return self._ask("step", reply)

    def discard(self) -> str:
        """See `Player.discard`."""
        return self._ask("discard")

    def close(self) -> None:
        """Have the environments closed and end the process."""
        if self._process is None:
            return
        try:
            self._ask("close")
        except WorkerDiedError:
            pass
        finally:
            self._reap()

    def kill(self) -> None:
        """Kill the process and all that it has started; whoever waits for its answer gets a `WorkerDiedError`."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                _kill(self._process)

    def _ask(self, act: str, *arguments: Any) -> Any:
        connection = self._started()
        try:
            connection.send((act, arguments))
            if connection not in wait([connection, self._process.sentinel]):
                raise EOFError
            failed, answer = connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError(self._died(act)) from error
        if failed:
            raise WorkerDiedError(answer)
        return answer

    def _started(self) -> Connection:
        if self._killed:
            raise WorkerDiedError("the process was killed")
        if self._connection is not None:
            return self._connection
        context = _context(self._preload)
        connection, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), name="agent-r1-environment", daemon=True)
        process.start()  # not under the lock: it may take seconds, and whoever wants to kill should not wait for it
        theirs.close()
        with self._lock:
            self._process, self._connection = process, connection
            if self._killed:
                _kill(process)
        try:
            connection.send_bytes(self._setup)
        except OSError as error:
            raise WorkerDiedError(self._died("start")) from error
        return connection

    def _died(self, act: str) -> str:
        self._process.join(_GRACE)
        code = self._process.exitcode
        _kill(self._process)  # what it has started and left behind
        self._reap()
        how = (
            "does not answer" if code is None else f"ended with code {code}" if code >= 0 else f"ended by {_name(code)}"
        )
        hint = f" (or did a script begin anew there? What it does {_GUARD})" if act == "prepare" and code == 1 else ""
        return f"the environment's process {how} in {act}{hint}"

    def _reap(self) -> None:
        """Make sure that the process is gone, and forget it."""
        process, connection = self._process, self._connection
        if process is None or connection is None:
            return
        connection.close()
        process.join(_GRACE)
        if process.is_alive():
            _kill(process)
            process.join(_GRACE)
        with self._lock:  # nobody can be killing it after this
            self._process = self._connection = None
        if not process.is_alive():
            process.close()


def serve(connection: Connection) -> None:
    """Play in this process for whoever holds the other end of a connection, until it is closed."""
    gc.freeze()  # a collection would look at all that the processes have in common, and copy its pages for that
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the business of the process that asks
    if hasattr(os, "setsid"):
        os.setsid()
    threading.Thread(target=_follow_parent, daemon=True).start()
    setup = connection.recv_bytes()
    player: Player | Exception
    try:
        player = Player(pickle.loads(setup))
    except Exception as error:  # a module that cannot be imported here
        player = error
    try:
        while True:
            act, arguments = connection.recv()
            connection.send_bytes(_answer(player, act, arguments))
            if act == "close":
                break
    except (EOFError, OSError):
        pass
    finally:
        if isinstance(player, Player):
            player.close()


def _answer(player: Player | Exception, act: str, arguments: tuple[Any, ...]) -> bytes:
    """Whether a player failed and what it says, as it is sent; an exception in words, since not every one can be."""
    try:
        if isinstance(player, Exception):
            raise player
        return bytes(ForkingPickler.dumps((False, getattr(player, act)(*arguments))))
    except BaseException as error:  # a `sys.exit` of an environment too costs its episode only
        return bytes(ForkingPickler.dumps((True, error_text(error))))


def refuse_in_worker(what: str) -> None:
    """Refuse to begin again what a script does, where a process of `env_workers="processes"` reads that script.

    Args:
        what: What would begin, for the message.

    Raises:
        RuntimeError: This is such a process, which has not come to its own work yet.
    """
    if getattr(current_process(), "_inheriting", False):  # as multiprocessing itself asks before it starts a process
        raise RuntimeError(f"{what} in a process that an environment is to work in: what a script does {_GUARD}")


def _follow_parent() -> None:
    """End with the process that asks, also where an environment hangs and nobody listens to the connection."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        if hasattr(os, "killpg"):
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)


def _context(preload: Sequence[str]) -> Any:
    """Processes that hold nothing of this one: neither its threads nor its GPU."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["__main__", *preload])
    return context


def _kill(process: Any) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, OSError):  # not a group yet, or no such thing on this system
        process.kill()


def _name(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
