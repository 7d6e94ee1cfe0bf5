"""Redaction: kinds, wrappings, what is left alone, and how fast. Every secret here is made up anew from a fixed seed."""

import base64
import hashlib
import json
import random
import string
import time
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopatch.chassis.redaction import Redactor, know, redact, redact_value, secret_name, secrets_in

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
R = Redactor(key=b"a fixed key for tests")


def some(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(length))


def _b64(rng: random.Random, size: int) -> str:
    return base64.b64encode(rng.randbytes(size)).decode()


def _url64(rng: random.Random, size: int) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(size)).decode().rstrip("=")


def _jwt(rng: random.Random) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": some(rng, ALNUM, 8), "exp": rng.randrange(10**9)})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), _url64(rng, 32)])


def _pem(rng: random.Random, kind: str = "RSA PRIVATE KEY") -> str:
    body = _b64(rng, 300)
    lines = "\n".join(body[i : i + 64] for i in range(0, len(body), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


def _password(rng: random.Random) -> str:
    return some(rng, ALNUM, 6) + rng.choice("!#%*+-_.~^") + some(rng, ALNUM, 8)


Maker = Callable[[random.Random], str]
KINDS: dict[str, tuple[str, Maker]] = {
    "aws access key": ("using {} in eu-west-1", lambda r: "AKIA" + some(r, string.ascii_uppercase + "234567", 16)),
    "aws temporary key": ("key={} ok", lambda r: "ASIA" + some(r, string.ascii_uppercase + "234567", 16)),
    "aws secret key": ("aws_secret_access_key = {}", lambda r: some(r, ALNUM + "/+", 40)),
    "aws presigned": ("GET /o?X-Amz-Date=2026&X-Amz-Signature={}", lambda r: some(r, HEX, 64)),
    "gcp api key": ("maps key {} expired", lambda r: "AIza" + some(r, ALNUM + "_-", 35)),
    "gcp access token": ("token {}", lambda r: "ya29." + some(r, ALNUM + "_-", 80)),
    "gcp client secret": ("oauth {}", lambda r: "GOCSPX-" + some(r, ALNUM + "_-", 28)),
    "gcp service account": (
        '{{"type": "service_account", "private_key": "{}"}}', lambda r: _pem(r, "PRIVATE KEY").replace("\n", "\\n"),
    ),
    "azure account key": ("AccountName=x;AccountKey={};EndpointSuffix=y", lambda r: _b64(r, 64)),
    "azure signature": (
        "https://x.blob.test/c?sv=2026&sig={}", lambda r: some(r, ALNUM, 30) + "%2B" + some(r, ALNUM, 10) + "%3D",
    ),
    "azure client secret": ("login with {}", lambda r: some(r, ALNUM, 3) + "8Q~" + some(r, ALNUM + "~._-", 34)),
    "github token": ("remote: {}", lambda r: "ghp_" + some(r, ALNUM, 36)),
    "github app token": ("remote: {}", lambda r: "ghs_" + some(r, ALNUM, 36)),
    "github fine-grained": ("PAT {}", lambda r: "github_pat_" + some(r, ALNUM, 22) + "_" + some(r, ALNUM, 59)),
    "gitlab token": ("clone with {}", lambda r: "glpat-" + some(r, ALNUM + "-_", 20)),
    "slack bot token": ("slack {}", lambda r: f"xoxb-{r.randrange(10**11, 10**12)}-{some(r, ALNUM, 24)}"),
    "slack webhook": (
        "post https://hooks.slack.com/services/{}", lambda r: f"T{some(r, ALNUM, 8)}/B{some(r, ALNUM, 8)}/{some(r, ALNUM, 24)}",
    ),
    "openai key": ("Incorrect key provided: {}", lambda r: "sk-proj-" + some(r, ALNUM + "_-", 60)),
    "openai old key": ("Incorrect key provided: {}", lambda r: "sk-" + some(r, ALNUM, 48)),
    "anthropic key": ("x {}", lambda r: "sk-ant-api03-" + some(r, ALNUM + "_-", 90)),
    "huggingface": ("hub {}", lambda r: "hf_" + some(r, string.ascii_letters, 34)),
    "npm token": ("npm ERR {}", lambda r: "npm_" + some(r, ALNUM, 36)),
    "npmrc": ("//registry.test/:_authToken={}", lambda r: str(uuid.UUID(int=r.getrandbits(128)))),
    "pypi token": ("upload {}", lambda r: "pypi-AgEIcHlwaS5vcmc" + some(r, ALNUM + "_-", 120)),
    "stripe key": ("charge {}", lambda r: "sk_live_" + some(r, ALNUM, 24)),
    "stripe webhook": ("sign {}", lambda r: "whsec_" + some(r, ALNUM, 32)),
    "twilio": ("sms {}", lambda r: "SK" + some(r, HEX, 32)),
    "sendgrid": ("mail {}", lambda r: f"SG.{some(r, ALNUM + '_-', 22)}.{some(r, ALNUM + '_-', 43)}"),
    "digitalocean": ("droplet {}", lambda r: "dop_v1_" + some(r, HEX, 64)),
    "vault": ("unwrap {}", lambda r: "hvs." + some(r, ALNUM, 90)),
    "databricks": ("job {}", lambda r: "dapi" + some(r, HEX, 32)),
    "grafana": ("push {}", lambda r: "glsa_" + some(r, ALNUM, 32) + "_" + some(r, HEX, 8)),
    "telegram": ("bot {}", lambda r: f"{r.randrange(10**9, 10**10)}:AA{some(r, ALNUM + '_-', 33)}"),
    "private key": ("key:\n{}\nend", _pem),
    "openssh key": ("{}", lambda r: _pem(r, "OPENSSH PRIVATE KEY")),
    "nkey seed": ("seed {}", lambda r: "SU" + some(r, string.ascii_uppercase + "234567", 56)),
    "jwt": ("session {} rejected", _jwt),
    "bearer": ("Authorization: Bearer {} status=401", lambda r: some(r, ALNUM, 32)),
    "bearer without header": ("sent bearer {}", lambda r: some(r, ALNUM, 31) + "7"),
    "basic": ("authorization: Basic {}", lambda r: base64.b64encode(f"{some(r, ALNUM, 5)}:{_password(r)}".encode()).decode()),
    "cookie": ("Cookie: {}", lambda r: f"sid={some(r, ALNUM, 24)}; theme=dark"),
    "set-cookie": ('"Set-Cookie": "{}"', lambda r: f"id={some(r, ALNUM, 24)}; HttpOnly"),
    "url password": ("connecting to postgres://app:{}@db:5432/x", _password),
    "url token": ("https://{}@git.test/x.git", lambda r: some(r, ALNUM, 24)),
    "json password": ('{{"user": "u", "password": "{}", "n": 1}}', _password),
    "escaped json password": ('"{{\\"password\\": \\"{}\\"}}"', _password),
    "yaml password": ("db:\n  password: {}\n  port: 5432", _password),
    "env password": ("export DB_PASSWORD={}", _password),
    "toml secret": ('client_secret = "{}"', _password),
    "ini passphrase": ("passphrase={}", _password),
    "logfmt secret": ("level=info secret={} user=x", _password),
    "query token": ("GET /x?access_token={}&page=2", lambda r: some(r, ALNUM, 20)),
    "header api key": ("x-api-key: {}", lambda r: some(r, ALNUM, 20)),
    "flag": ("run --db-password {} --verbose", _password),
    "xml": ("<password>{}</password>", _password),
    "sql": ("CREATE ROLE a PASSWORD '{}';", _password),
    "mysql flag": ("mysql -u root -p{} db", _password),
    "curl user": ("curl -u admin:{} http://x", _password),
    "kubernetes env": ("- name: DB_PASSWORD\n  value: {}", _password),
    "docker auth": ('{{"auths": {{"r": {{"auth": "{}"}}}}}}', lambda r: base64.b64encode(f"u:{_password(r)}".encode()).decode()),
    "kubeconfig": ("    client-key-data: {}", lambda r: _b64(r, 60)),
    "bcrypt": ("hash {}", lambda r: "$2b$12$" + some(r, ALNUM + "./", 53)),
    "python keyword": ("connect(user='u', password='{}')", _password),
    "wireguard": ("PrivateKey = {}", lambda r: _b64(r, 32)),
    "connection string": ('"ConnectionString": "{}"', lambda r: f"Server=x;Uid=u;Pwd={_password(r)}"),
}


def leaks(secret: str, shown: str) -> bool:
    """Does any long part of the secret show? For keys in PEM their bodies count, for cookies the values."""
    parts = [p for p in secret.replace("\\n", "\n").replace(";", "\n").split("\n") if not p.startswith("-----") and len(p) > 9]
    parts = [p for p in parts if "theme" not in p and "HttpOnly" not in p and not p.startswith(("Server", "Uid"))]
    return any(part in shown or part[-10:] in shown for part in parts)


def test_there_are_at_least_forty_kinds() -> None:
    assert len(KINDS) >= 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_this_kind_is_taken_out_in_ten_of_ten(kind: str) -> None:
    template, make = KINDS[kind]
    for seed in range(10):
        secret = make(random.Random(f"{kind}{seed}"))
        shown = R.redact(template.format(secret))
        assert not leaks(secret, shown), shown
        assert "[redacted:" in shown
        assert R.redact(shown) == shown


def test_at_least_ninety_of_a_hundred_base64_wrapped_secrets_are_taken_out() -> None:
    missed = []
    for kind, (template, make) in KINDS.items():
        for seed in range(5):
            text = template.format(make(random.Random(f"{kind}{seed}")))
            wrapped = base64.b64encode(text.encode()).decode()
            if wrapped[:16] in R.redact(f"data: {wrapped} end"):
                missed.append(kind)
    share = 1 - len(missed) / (5 * len(KINDS))
    print(f"base64: {share:.1%} of {5 * len(KINDS)} taken out; missed {sorted(set(missed))}")
    assert share >= 0.9


def test_base64_wrapped_twice_or_over_several_lines_is_taken_out() -> None:
    rng = random.Random(1)
    text = f"{{\"password\": \"{_password(rng)}\", \"filler\": \"{some(rng, ALNUM, 200)}\"}}"
    once = base64.b64encode(text.encode()).decode()
    twice = base64.b64encode(once.encode()).decode()
    assert once not in R.redact(once) and twice not in R.redact(f"x={twice}")
    folded = "\n".join(once[i : i + 76] for i in range(0, len(once), 76))
    assert once[:20] not in R.redact(f"begin\n{folded}\nend") and once[-20:] not in R.redact(folded)


@pytest.mark.parametrize("kind", ["github token", "gitlab token", "anthropic key", "npm token", "pypi token", "stripe key"])
@pytest.mark.parametrize("cut", ["\n", "\r\n  ", "\\\n"])
def test_a_token_broken_over_two_lines_is_taken_out(kind: str, cut: str) -> None:
    token = KINDS[kind][1](random.Random(kind))
    shown = R.redact(f"token {token[:14]}{cut}{token[14:]} and more")
    assert token[14:] not in shown and "and more" in shown


@pytest.mark.parametrize(
    "text", ["password: |\n    {}\n    second\nnext: 1", "password: \\\n    {}\n", '{{"password": "{}', "passwords: [{}, other]"]
)
def test_values_that_are_folded_cut_off_or_listed_are_taken_out(text: str) -> None:
    assert "hunter2" not in R.redact(text.format("hunter2"))


def benign(rng: random.Random) -> str:
    """One line with ids or hashes, such as logs are full of."""
    hashed = hashlib.sha256(rng.randbytes(8)).hexdigest()
    unique = str(uuid.UUID(int=rng.getrandbits(128)))
    upper = some(rng, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26)
    return rng.choice([
        f"request_id={unique} path=/api/v1/orders/{rng.randrange(10**8)} status=200 duration=0.{rng.randrange(999)}",
        f"pulled image registry.test/app@sha256:{hashed}",
        f"commit {hashed[:40]} by someone@example.test",
        f"trace_id={hashed[:32]} span_id={hashed[:16]} sampled=true",
        f"ETag: \"{hashed[:32]}\" cache-key-{hashed[:32]}",
        f"pod payments-{hashed[:10]}-{hashed[10:15]} scheduled on node-{rng.randrange(99)}",
        f"ulid {upper} stored", f"_INBOX.{some(rng, ALNUM, 22)}.{some(rng, ALNUM, 8)} timed out",
        f"integrity sha512-{_b64(rng, 64)}", f"thumbnail data:image/png;base64,{_b64(rng, 120)}",
        f"max_tokens: {rng.randrange(4096)}, prompt_tokens={rng.randrange(4096)}, tokens: {rng.randrange(99999)}",
        f"GET http://10.0.{rng.randrange(255)}.7:{rng.randrange(65000)}/metrics?x={hashed[:12]} 200",
        f"at com.example.payments.PoolManager.acquire(PoolManager.java:{rng.randrange(900)})",
        f"could not acquire a connection from the pool within 5s, waiting {rng.randrange(99)}",
        f"cache_key={hashed[:24]} primary_key={rng.randrange(10**6)} sort_key={unique}",
        f"User {rng.randrange(10**6)} changed password successfully", f"password_reset_url=/reset/{rng.randrange(100)}",
        f"if token == expected_token: return self.session[{rng.randrange(9)}]", "token = get_token(request)",
        f"bypass=true pass: {rng.randrange(99)} fail: 0", f"session_id={unique} user_id={rng.randrange(9999)}",
        f"node_modules/.pnpm/@scope+pkg@{rng.randrange(9)}.2.1_{hashed[:20]}/index.js",
        f"2026-01-05T12:00:00.{rng.randrange(10**6)}Z INFO pid={rng.randrange(65000)} bearer authentication enabled",
        f"ssh-rsa host fingerprint SHA256:{_b64(rng, 32).rstrip('=')}", f"kid={some(rng, ALNUM, 22)} alg=RS256",
        f"s3://bucket/prefix/{hashed}/part-{rng.randrange(99999):05d}.parquet", f"mac 02:42:ac:11:00:{rng.randrange(16, 99)}",
        f"task-{some(rng, ALNUM, 24)} finished; sk-learn-{rng.randrange(9)}.2 loaded",
        f"secretName: payments-tls-{rng.randrange(99)}",
        f"serviceAccountName: app-{hashed[:6]} tokenExpirationSeconds: 3600", f"x-amz-request-id: {upper[:16]}",
    ])


def test_at_most_one_in_a_hundred_lines_with_ids_and_hashes_is_touched() -> None:
    rng = random.Random(7)
    touched = [line for line in (benign(rng) for _ in range(1000)) if R.redact(line) != line]
    print(f"false positives: {len(touched)} of 1000", *{R.redact(line) for line in touched}, sep="\n")
    assert len(touched) <= 10


def test_megabytes_a_second_go_through() -> None:
    rng = random.Random(3)
    lines = [benign(rng) for _ in range(12_000)]
    for index, (kind, (template, make)) in enumerate(KINDS.items()):
        lines[index * 150] = template.format(make(random.Random(kind)))
    text = "\n".join(lines)
    best = min(_seconds(lambda: R.redact(text)) for _ in range(4))
    by_line = min(_seconds(lambda: [R.redact(line) for line in lines]) for _ in range(3))
    size = len(text) / 1e6
    print(f"{size / best:.1f} MB/s as one text, {size / by_line:.1f} MB/s line by line")
    assert size / best >= 3 and size / by_line >= 1, "on a machine that does other things too"


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def test_equal_secrets_look_equal_and_different_ones_different() -> None:
    first, again, other = (R.redact(f"password={v}") for v in ("hunter2!", "hunter2!", "hunter3!"))
    assert first == again != other
    assert Redactor(key=b"another").redact("password=hunter2!") != first


LITERAL = "demo-Gq7xW2-not-for-logs"


@pytest.mark.parametrize(
    "text",
    [
        f"got {LITERAL} there", f"x{LITERAL}y", base64.b64encode(LITERAL.encode()).decode(), LITERAL.encode().hex(),
        *(base64.b64encode(("u" * n + ":" + LITERAL + "@" + "z" * n).encode()).decode() for n in range(6)),
        base64.urlsafe_b64encode(f"a?>{LITERAL}".encode()).decode(),
    ],
)
def test_a_known_secret_is_taken_out_however_it_is_wrapped(text: str) -> None:
    shown = Redactor([LITERAL]).redact(text)
    assert "[redacted:" in shown and LITERAL not in shown and text[8:24] not in shown


def test_a_short_known_secret_is_taken_out_as_a_word_only() -> None:
    known = Redactor(["root"])
    assert "root" not in known.redact("user root logged in") and known.redact("rooted") == "rooted"


def test_known_secrets_reach_the_redactor_of_the_process() -> None:
    know(["Zx9-known-secret"])
    assert "Zx9" not in redact("saw Zx9-known-secret") and "Zx9" not in str(redact_value({"a": ["Zx9-known-secret"]}))


def test_secrets_of_a_configuration_are_found_in_its_text_and_in_its_values() -> None:
    text = '{\n  // note\n  "database": {"password": "demo-Gq7xW2", // never shown\n  "pool_size": 10}}'
    assert secrets_in(text) == {"demo-Gq7xW2"}
    assert secrets_in({"database": {"password": "demo-Gq7xW2", "pool_size": 10}, "debug": {"token": None}}) == {"demo-Gq7xW2"}


def test_everything_below_a_secret_name_in_json_is_taken_out() -> None:
    value = {
        "password": "a", "list": [{"api_key": 12345678}], "credentials": {"user": "bob", "deep": ["xyz"]}, "n": 1, "ok": True,
        "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "MODE", "value": "fast"}], "max_tokens": 5,
    }
    shown = R.redact_value(value)
    assert not any(secret in json.dumps(shown) for secret in ("hunter2", "12345678", "bob", "xyz"))
    assert (shown["n"], shown["ok"], shown["max_tokens"], shown["env"][1]["value"]) == (1, True, 5, "fast")
    assert R.redact_value(shown) == shown


def test_json_that_is_nested_too_deeply_is_cut_off() -> None:
    deep: object = "password=hunter2"
    for _ in range(200):
        deep = [deep]
    assert "hunter2" not in str(R.redact_value(deep))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DB_PASSWORD", "password"), ("databasePassword", "password"), ("db-pass", "password"), ("bypass", ""),
        ("api_key", "key"),
        ("X-Api-Key", "key"), ("cache_key", ""), ("public_key", ""), ("access_token", "token"), ("max_tokens", ""),
        ("tokenizer", ""),
        ("secretName", ""), ("client_secret", "secret"), ("pool_size", ""), ("aws_secret_access_key", "key"),
    ],
)
def test_a_name_says_whether_its_value_is_secret(name: str, kind: str) -> None:
    assert secret_name(name) == kind


@pytest.mark.parametrize(
    "text",
    ["password=${DB_PASSWORD}", "password: ${{ secrets.X }}", "token: true", "def f(password: str, token: str = None)",
     "self.token = self.config.token", "password = os.environ['X']", "secret = hashlib.sha256(x)", "password: null",
     'password: ""'],
)
def test_references_types_and_code_are_left_alone(text: str) -> None:
    assert R.redact(text) == text


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200), st.sampled_from(sorted(KINDS)), st.integers(0, 9))
def test_whatever_stands_around_it_redacting_again_changes_nothing(around: str, kind: str, seed: int) -> None:
    template, make = KINDS[kind]
    shown = R.redact(f"{around}\n{template.format(make(random.Random(seed)))}\n{around}")
    assert R.redact(shown) == shown


CRAWLERS = [
    "a", "=", "password=", "password=self.", "://a:", "eyJ", "eyJ-", "-----BEGIN PRIVATE KEY-----", "\\\n", "sk-a\n", "sk-ant-",
    "SG.", "[", "$2b$",
    "' ", "mysql ", "api_key", "authorization=", "bearer a", "cookie", "password\t", "key: |\n ", "aB3+", "value", '\\"',
    "secret: [a,", "MTA.",
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", CRAWLERS)
def test_no_input_makes_it_crawl(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert _seconds(lambda: R.redact(text)) < 2
    assert _seconds(lambda: R.redact("password" + text)) < 2
