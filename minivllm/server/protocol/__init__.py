"""What travels over HTTP: requests as they may be, answers as they are."""
