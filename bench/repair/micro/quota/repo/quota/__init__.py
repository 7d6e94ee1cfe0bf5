"""Storage quotas: may a file be added, and who is over what was agreed?"""

from quota.audit import Finding, findings
from quota.rules import Account, allowed, room_left

__all__ = ["Account", "Finding", "allowed", "findings", "room_left"]
