"""WebShop: buy what was asked for in a web shop."""
