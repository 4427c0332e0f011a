"""Three services that are peers of each other, under kills and cut links, and a checker of their logs."""
