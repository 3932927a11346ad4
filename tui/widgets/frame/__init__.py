"""What every screen has around its panels, and `panel`, which all panels are."""
