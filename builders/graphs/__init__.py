"""The exported graphs, one module each. To add a graph: write its module and list it in `registry.py`."""
