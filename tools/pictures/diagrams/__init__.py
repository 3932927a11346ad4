"""The diagrams of the docs: SVG in one visual language, with figures from the lessons' engines.

colours   the dashboard's colours as CSS, for light and dark
canvas    text, boxes, cells, blocks, arrows: all that a diagram is made of
scenes    the engines of a lesson at the page that shows a diagram
memory, sharing, steps, speed, numbers    the diagrams
"""
