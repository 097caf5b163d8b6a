"""A module in the working directory."""
