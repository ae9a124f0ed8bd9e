"""Which environment is played, and what it must keep to.

`factory` builds environments from the `env` argument of a trainer, `mixture` names several of them with their weights,
and `contract` checks and mends what they return.
"""
