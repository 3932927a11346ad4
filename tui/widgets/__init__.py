"""The panels of the dashboard: each a function from the model to lines, painted by
`panel.Panel`.
"""
