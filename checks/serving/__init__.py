"""Serves tiny models with SGLang on a CPU, and reads what capture wrote to a store."""
