"""From what a model and a loader hold to packed rows: forms, shapes, number types, values."""
