"""More of the walks of `tests/test_the_screen_is_the_fold.py`."""

from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine.random_runs import OPTIONS, REQUESTS
from test_the_screen_is_the_fold import FEW_WALKS, WALKS, walk_through


@settings(FEW_WALKS, max_examples=25)
@given(REQUESTS, OPTIONS, st.floats(0.1, 0.9), WALKS)
def test_the_painted_screen_equals_the_fold_during_many_walks(requests, options, had, walk):
    walk_through(requests, options, had, walk)
