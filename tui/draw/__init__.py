"""From styled text to cells. Read `lines` first: what panels make and tests read."""
