"""From a user's text to token ids."""
