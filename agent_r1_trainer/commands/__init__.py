"""What each command of ``agent-r1`` says to a person."""
