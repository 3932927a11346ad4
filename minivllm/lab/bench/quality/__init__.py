"""What smaller numbers cost in quality; `quality` has the measurement, the texts are beside it."""
