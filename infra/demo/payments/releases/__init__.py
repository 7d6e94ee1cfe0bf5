"""What differs between releases: how a fee is computed. An image carries only its own release."""
