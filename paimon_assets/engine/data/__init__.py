"""The data plane: rows into files, files into rows, as an executor asks through `worker`."""
