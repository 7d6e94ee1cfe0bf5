"""Real servers for the demo and the tests: each a child process, on loopback, on a free port, ended with its owner."""
