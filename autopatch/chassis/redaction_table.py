"""What secrets look like: tokens by their prefix, shapes by an expression, and names whose values are secret."""

import re
from dataclasses import dataclass

_WORD = "[A-Za-z0-9]"
_URLSAFE = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"
_BREAK = r"\\?\r?\n[ \t]*"


@dataclass(frozen=True)
class Row:
    """`pattern` must match `back` characters before one of `gates` (small letters). Its group is the secret, else all of it."""

    kind: str
    gates: tuple[str, ...]
    pattern: re.Pattern[str]
    back: int = 0


def _shape(kind: str, gates: str, pattern: str, *, back: int = 0) -> Row:
    return Row(kind, tuple(gates.split("|")), re.compile(pattern, re.IGNORECASE if gates.replace("|", "").isalpha() else 0), back)


def _token(body: str, least: int) -> re.Pattern[str]:
    """What follows a prefix, also when a line break was put into it."""
    return re.compile(f"{body}{{{least},}}|(?=(?:{body}|{_BREAK}){{{least}}}){body}+(?:{_BREAK}{body}+){{1,4}}")


_TOKENS: tuple[tuple[str, str, str, int], ...] = (
    ("aws", "AKIA", "[A-Z0-9]", 16), ("aws", "ASIA", "[A-Z0-9]", 16), ("aws", "ABIA", "[A-Z0-9]", 16),
    ("aws", "ACCA", "[A-Z0-9]", 16),
    ("gcp", "AIza", _URLSAFE, 35), ("gcp", "ya29.", _URLSAFE, 20), ("gcp", "GOCSPX-", _URLSAFE, 24),
    ("gcp", "1//0", _URLSAFE, 30),
    ("github", "ghp_", _WORD, 30), ("github", "gho_", _WORD, 30), ("github", "ghu_", _WORD, 30), ("github", "ghs_", _WORD, 30),
    ("github", "ghr_", _WORD, 30), ("github", "github_pat_", r"\w", 22),
    ("gitlab", "glpat-", r"[\w.-]", 20), ("gitlab", "gldt-", r"[\w.-]", 20), ("gitlab", "glrt-", r"[\w.-]", 20),
    ("gitlab", "glcbt-", r"[\w.-]", 20), ("gitlab", "glptt-", r"[\w.-]", 20), ("gitlab", "glsoat-", r"[\w.-]", 20),
    ("slack", "xoxb-", _URLSAFE, 20), ("slack", "xoxp-", _URLSAFE, 20), ("slack", "xoxa-", _URLSAFE, 20),
    ("slack", "xoxr-", _URLSAFE, 20),
    ("slack", "xoxe-", _URLSAFE, 20), ("slack", "xoxs-", _URLSAFE, 20), ("slack", "xapp-", _URLSAFE, 20),
    ("anthropic", "sk-ant-", _URLSAFE, 20), ("openai", "sk-proj-", _URLSAFE, 20), ("openai", "sk-svcacct-", _URLSAFE, 20),
    ("openai", "sk-admin-", _URLSAFE, 20), ("openrouter", "sk-or-v1-", _WORD, 32), ("openai", "sk-", _WORD, 32),
    ("groq", "gsk_", _WORD, 32), ("replicate", "r8_", _WORD, 32), ("perplexity", "pplx-", _WORD, 32), ("xai", "xai-", _WORD, 40),
    ("huggingface", "hf_", "[A-Za-z]", 30), ("npm", "npm_", _WORD, 30), ("pypi", "pypi-AgE", _URLSAFE, 40),
    ("rubygems", "rubygems_", _HEX, 48), ("docker", "dckr_pat_", _URLSAFE, 20), ("docker", "dckr_oat_", _URLSAFE, 20),
    ("stripe", "sk_live_", _WORD, 16), ("stripe", "sk_test_", _WORD, 16), ("stripe", "rk_live_", _WORD, 16),
    ("stripe", "rk_test_", _WORD, 16), ("stripe", "whsec_", "[A-Za-z0-9+/=]", 24),
    ("square", "sq0csp-", _URLSAFE, 40), ("square", "EAAAE", _URLSAFE, 50), ("shopify", "shpat_", "[0-9a-fA-F]", 32),
    ("shopify", "shpss_", "[0-9a-fA-F]", 32), ("shopify", "shpca_", "[0-9a-fA-F]", 32), ("twilio", "SK", _HEX, 32),
    ("sendgrid", "SG.", r"[\w.-]", 60), ("mailchimp", "md-", _URLSAFE, 22), ("digitalocean", "dop_v1_", _HEX, 64),
    ("digitalocean", "doo_v1_", _HEX, 64), ("vault", "hvs.", _URLSAFE, 24), ("vault", "hvb.", _URLSAFE, 24),
    ("terraform", "atlasv1.", r"[\w=-]", 60), ("databricks", "dapi", _HEX, 32), ("grafana", "glsa_", r"\w", 40),
    ("grafana", "glc_", "[A-Za-z0-9+/=]", 32), ("newrelic", "NRAK-", "[A-Z0-9]", 27), ("atlassian", "ATATT3", r"[\w=-]", 60),
    ("atlassian", "ATCTT3", r"[\w=-]", 60), ("linear", "lin_api_", _WORD, 40), ("postman", "PMAK-", "[0-9a-f-]", 50),
    ("sentry", "sntrys_", r"[\w=+/-]", 40), ("sentry", "sntryu_", _HEX, 64), ("planetscale", "pscale_tkn_", r"[\w.-]", 30),
    ("planetscale", "pscale_pw_", r"[\w.-]", 30), ("supabase", "sbp_", _HEX, 40), ("dynatrace", "dt0c01.", r"[A-Z0-9.]", 80),
    ("doppler", "dp.pt.", _WORD, 40), ("heroku", "HRKU-", _URLSAFE, 36), ("notion", "ntn_", _WORD, 40),
    ("figma", "figd_", _URLSAFE, 40),
    ("age", "AGE-SECRET-KEY-1", "[A-Z0-9]", 50), ("nkey", "SA", "[A-Z2-7]", 56), ("nkey", "SC", "[A-Z2-7]", 56),
    ("nkey", "SN", "[A-Z2-7]", 56), ("nkey", "SO", "[A-Z2-7]", 56), ("nkey", "SU", "[A-Z2-7]", 56),
    ("nkey", "SX", "[A-Z2-7]", 56), ("flyio", "fm2_", "[A-Za-z0-9+/=_,-]", 60), ("buildkite", "bkua_", _HEX, 40),
    ("pulumi", "pul-", _HEX, 40), ("tailscale", "tskey-", r"[\w-]", 24), ("onepassword", "ops_eyJ", r"[\w=+/-]", 60),
    ("cloudflare", "v1.0-", r"[0-9a-f-]", 60), ("artifactory", "AKCp", _WORD, 60), ("netlify", "nfp_", _WORD, 36),
    ("contentful", "CFPAT-", _URLSAFE, 40), ("sonar", "sqp_", _HEX, 40), ("vercel", "vcp_", _WORD, 24),
    ("nuget", "oy2", "[a-z0-9]", 43),
)

_SHAPES: tuple[Row, ...] = (
    _shape("private_key", "-----begin ", r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:(?s:.{1,16000}?)"
           r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s:,-]|\\[nr])*)"),
    _shape("private_key", "private-lines: ", r"Private-Lines: \d+\r?\n([A-Za-z0-9+/=\s]+)"),
    _shape("jwt", "eyj", r"(?-i:eyJ)(?<![\w-]...)[\w-]{8,}\.(?:[\w-]{8,}\.[\w-]*|[\w-]*\.[\w-]{8,})(?:\.[\w-]+){0,2}"),
    _shape("azure", "q~", r"[\w~.]{3}\dQ~[\w~.-]{31,34}", back=4),
    _shape("azure", "sig=", r"sig=(?<=[?&;]....)([A-Za-z0-9%+/=_-]{20,})"),
    _shape("azure", "accountkey|sharedaccesskey", r"(?i:\w{10,15})\s*=\s*([A-Za-z0-9+/]{30,}={0,2})"),
    _shape("signature", "-signature=", r"-(?i:signature)=([0-9a-fA-F]{40,})"),
    _shape("slack", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,})"),
    _shape("discord", "/api/webhooks/", r"/api/webhooks/\d{15,}/([\w-]{40,})"),
    _shape("discord", "", r"[MNO](?<![\w-].)[A-Za-z\d_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}\b"),
    _shape("telegram", ":aa", r"\d{8}:AA[\w-]{32,34}\b", back=8),
    _shape("teams", ".webhook.office.com/", r"\.webhook\.office\.com/webhookb2/([\w@/-]{60,})"),
    _shape("mailgun", "key-", r"key-(?<![\w-]....)[0-9a-f]{32}(?![0-9a-z])"),
    _shape("mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}\b", back=32),
    _shape("airtable", "pat", r"(?-i:pat)(?<!\w...)[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _shape("hash", "$2|$5$|$6$|$1$|$y$|$7$|$apr1|$argon2|$scrypt|$pbkdf2",
           r"\$(?:2[abxy]|5|6|1|y|7|apr1|argon2(?:id?|d)|scrypt|pbkdf2[\w-]*)"
           r"\$[\w./$=,+-]{16,}"),
    _shape("hash", "{ssha|{sha|{crypt", r"\{\w{3,5}\d*\}[A-Za-z0-9+/=$.]{16,}"),
    _shape("url", "://", r"://[^\s:/@\"'<>]{0,200}+:(?!\d{1,5}/)"
           r"([^\s/\"'<>@]{1,2000}+(?:@[^\s/\"'<>@]{0,200}+(?=@)){0,8}(?=@)|[^\s\"'<>@]{1,2000}+)@"),
    _shape("url", "://", r"://([^\s:/@\"'<>?#]{16,2000}+)@"),
    _shape("cookie", "cookie", r"cookie[\"'\\]{0,4}\s{0,8}[:=][ \t]*[\"'\\]{0,4}([^\"'\\\r\n]{4,})"),
    _shape("cookie", "jsessionid=|phpsessid=|asp.net_sessionid=|sessionid=|connect.sid=", r"[\w.]{9,18}=([^\s;&\"',]{8,})"),
    _shape("bearer", "bearer", r"bearer[ \t]+([A-Za-z0-9._~+/=-]{24,}|(?=[A-Za-z._~+/=-]{0,24}\d)[A-Za-z0-9._~+/=-]{6,})"),
    _shape("basic", "basic", r"basic[ \t]+([A-Za-z0-9+/_-]{6,}={0,2})(?=[\s\"'\\,;]|\Z)"),
    _shape("authorization", "authorization", r"authorization[\"'\\]{0,4}\s{0,8}[:=,]\s{0,8}[\"'\\]{0,4}(?:"
           r"(?:bearer|basic|token|negotiate|apikey|key)[ \t]+([^\s\"'\\,]+)"
           r"|(?:digest|aws4-hmac-sha256|hawk|oauth)[ \t]+([^\r\n]+)"
           r"|((?=[^\s\"'\\,]{0,300}\d)[^\s\"'\\,]{12,}))"),
    _shape("password", "identified by ", r"(?i:identified by\s+(?:password\s+)?)'([^']+)'"),
    _shape("password", "password '", r"(?i:password) '([^']{3,})'"),
    _shape("password", " -u", r"\s-u\s{0,8}[\"']?[^\s:\"']{1,64}:([^\s\"']{3,})"),
    _shape("password", "mysql|mariadb|sshpass",
           r"(?:mysql|mariadb|sshpass)(?:dump|admin)?\b[^\n|;]{0,200}?\s-p([^\s-][^\s]{3,})"),
    _shape("docker", "auth", r"auth[\"']\s{0,8}:\s{0,8}[\"']([A-Za-z0-9+/=]{12,})[\"']"),
)
SHAPES = [(gate, row) for row in _SHAPES for gate in row.gates]
"""Secrets that are known by what stands in or before them. An empty gate: looked for everywhere."""

def _trie(words: list[str]) -> str:
    """An expression for the longest of the words that fits; shared beginnings are tried once."""
    by_first: dict[str, list[str]] = {}
    for word in filter(None, words):
        by_first.setdefault(word[0], []).append(word[1:])
    branches = "|".join(re.escape(first) + _trie(rest) for first, rest in by_first.items())
    return f"(?:{branches}){'?' * ('' in words)}" if branches else ""


PREFIX = re.compile("(?<![A-Za-z0-9_])" + _trie([row[1] for row in _TOKENS]))
"""One search finds every prefix of a token; `TOKENS` has its kind and what must follow."""

TOKENS = {prefix: (kind, _token(body, least)) for kind, prefix, body, least in _TOKENS}

ANCHORS = ("pass", "pwd", "secret", "token", "credential", "connectionstring", "connection_string", "connection-string", "key")
"""Where a name may be one whose value is secret."""

NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("password", (
        "password", "passwords", "passwd", "passphrase", "passwordhash", "userpass", "dbpass", "rootpass", "dbpwd", "userpwd",
    )),
    ("secret", (
        "secret", "secrets", "credential", "credentials", "connectionstring", "secretkeybase", "secretstring", "secretvalue",
    )),
    ("token", ("token", "authtokens", "accesstokens", "refreshtokens", "apitokens")),
    ("key", (
        "apikey", "apikeys", "accesskey", "secretkey", "secretkeys", "privatekey", "privatekeys", "accountkey", "accountkeys",
        "encryptionkey",
        "encryptionkeys", "signingkey", "signingkeys", "masterkey", "clientkey", "clientkeydata", "authkey", "licensekey",
        "webhookkey",
        "adminkey", "rootkey", "presharedkey", "sharedkey", "servicekey", "hmackey", "storagekey", "sharedaccesskey", "sshkey",
        "deploykey",
    )),
)
"""How such names end, in small letters and without separators."""

SEPARATED = ("_pass", "-pass", ".pass", "_pwd", "-pwd", ".pwd")
"""Endings that count only when they stand alone in the name (db_pass), for "bypass" is none."""

HARMLESS = (
    "maxtoken", "mintoken", "numtoken", "nexttoken", "pertoken", "pagetoken", "continuationtoken", "inputtoken", "outputtoken",
    "eostoken",
    "bostoken", "padtoken", "publickey", "publicaccesskey",
)
"""Names that end alike and hold no secret."""
