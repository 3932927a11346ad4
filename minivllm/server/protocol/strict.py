"""`Strict`: the base of all requests."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A model that accepts only its own fields, with exactly their types."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
