"""The frame around a screen's panels, and `panel`, the base class of all panels."""
