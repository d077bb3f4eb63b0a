"""The CPU backend: ONNX Runtime sessions and the key-value cache in ordinary memory."""
