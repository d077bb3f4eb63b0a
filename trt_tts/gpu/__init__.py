"""The TensorRT backend: one GPU, all memory allocated at load, decode steps as CUDA graphs."""
