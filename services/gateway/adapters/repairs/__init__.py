"""Jobs that people bring: a repository whose tests are red."""
