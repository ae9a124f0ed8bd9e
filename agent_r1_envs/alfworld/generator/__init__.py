"""Generated households: games of their own that need no download, made from a seed."""
