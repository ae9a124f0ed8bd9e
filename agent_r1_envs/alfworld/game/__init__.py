"""The game itself: its model, what commands do, what it says, when it is won."""
