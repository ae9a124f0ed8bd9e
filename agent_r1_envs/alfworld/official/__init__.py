"""The official games: found in folders and archives, parsed, kept in a store."""
