"""The panels: each turns the model into lines, which `panel.Panel` paints."""
