"""Built-in tasks, one a file."""
