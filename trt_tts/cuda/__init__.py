"""The GPU as the runtime sees it: memory, one stream, events and graphs, over pycuda or cuda-bindings."""
