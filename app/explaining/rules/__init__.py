"""Pure rules that form explanations as values and put them into sentences."""
