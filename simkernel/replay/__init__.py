"""The event tier: requests served one by one where closed form only knows averages."""
