"""Jobs that clouds run for each other, under the promise."""
