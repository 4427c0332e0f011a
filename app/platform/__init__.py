"""The ground that every capability stands on; it knows none of them."""
