"""The pages of the shop: where a session is, what a page holds, and how it is rendered."""
