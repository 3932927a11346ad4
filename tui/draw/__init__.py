"""From styled text to terminal cells. Read `lines` first."""
