"""What every measurement needs: reports as text and JSON, the machine's description, stopwatches,
arrivals.
"""
