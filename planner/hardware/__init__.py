"""Studies of hardware alone: what to buy or rent, how much of it, at which site."""
