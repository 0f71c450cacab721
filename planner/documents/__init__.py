"""What each command answers: plain documents, and the same as text."""
