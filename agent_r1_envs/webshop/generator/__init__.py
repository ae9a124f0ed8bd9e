"""A synthetic catalogue, made by code from a fixed seed."""
