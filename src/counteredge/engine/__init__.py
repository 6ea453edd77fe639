"""The moves that every explainer is composed of."""
