"""What runs inside the sandbox: put into its work folder for every run. Standard library and the image's pytest only, Python 3.8 on."""
