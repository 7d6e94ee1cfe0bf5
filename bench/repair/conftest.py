"""The repositories in micro/ are broken on purpose: their tests are data, not ours."""

collect_ignore_glob = ["micro/*"]
