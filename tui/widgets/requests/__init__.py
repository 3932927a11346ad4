"""Panels on requests: batch slots, the queue, finished requests, and timelines."""
