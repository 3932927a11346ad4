"""Text to token ids and back, and chat messages to the prompt that a model was trained on."""
