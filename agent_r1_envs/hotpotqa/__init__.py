"""HotpotQA and its relatives: multi-hop questions that are answered by searching."""
