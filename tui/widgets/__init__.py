"""The panels. Each turns the model into lines, and the base class `panel.Panel` paints them."""
