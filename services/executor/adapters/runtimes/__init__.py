"""How targets are touched: Docker containers, local processes and configuration files, each with fencing at the target itself."""
