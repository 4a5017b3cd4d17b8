"""The studio: a local page to draw demonstrations in, and to see the reward that is inferred from them."""
