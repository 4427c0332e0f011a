"""One function a use case; the only layer that joins the engine with the store."""
