"""A local service that speaks the Graph API over a corpus; needs the extra ``serve``."""
