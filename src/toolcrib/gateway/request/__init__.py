"""The clients behind requests: progress, logs, input and the confirmation of destructive calls."""
