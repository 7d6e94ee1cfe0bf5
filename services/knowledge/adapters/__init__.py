"""The embedder and HTTP; `stores` holds the adapters of Qdrant, `sources` reads what people wrote."""
