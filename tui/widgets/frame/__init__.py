"""The frame of a screen around its panels, and the base class of all panels (`panel`)."""
