"""Papers and queries: the data model, when two names mean one paper, rows of data sets."""
