"""Code repair, measured: our own small repositories and HumanEvalFix, AutoPatch beside other tools, judged by hidden tests."""
