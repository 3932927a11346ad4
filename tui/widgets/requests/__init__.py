"""Panels about requests: batch slots, the queue, finished requests, and timelines."""
