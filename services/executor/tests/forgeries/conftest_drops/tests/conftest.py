def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "zero" in item.name]
