"""What a picture is drawn from, folded from events; no drawing. Read `model` first."""
