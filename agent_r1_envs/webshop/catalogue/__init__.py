"""The products and goals: read from files, built once, kept in a store, opened by every environment."""
