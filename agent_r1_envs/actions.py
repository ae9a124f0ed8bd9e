"""What reaches an environment when a model's reply holds no valid action."""


class MalformedAction(str):
    """A reply without a valid action, passed on as it was, with the reason.

    An action format (see ``agent_r1_wrappers``) sends it to the environment in place of a command. Because it is a
    string, an environment that knows nothing of it gets the reply; an :class:`~agent_r1_envs.core.AgentEnv` treats it
    as an invalid action: the turn counts, the world stays as it was, and ``info["invalid_action"]`` holds the reason.

    Attributes:
        reason: What was wrong, in words that a model can act on.

    Example:
        >>> action = MalformedAction("let me think", "no <action> tag")
        >>> action, action.reason
        ('let me think', 'no <action> tag')
    """

    __slots__ = ("reason",)

    reason: str

    def __new__(cls, reply: str, reason: str) -> "MalformedAction":
        """Make the action.

        Args:
            reply: The model's reply.
            reason: What was wrong with it; must not be empty.

        Raises:
            ValueError: If ``reason`` is empty.
        """
        if not reason:
            raise ValueError("a MalformedAction needs a reason that is not empty")
        action = super().__new__(cls, reply)
        action.reason = reason
        return action

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Return the arguments that rebuild the action from a pickle or a copy."""
        return str(self), self.reason
