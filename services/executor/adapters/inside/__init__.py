"""What runs inside the sandbox: put into its work folder for every run. Python 3.9 on, standard library and pytest only."""
