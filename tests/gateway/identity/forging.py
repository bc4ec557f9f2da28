"""Tokens of an issuer, and some that others have made to look like its own."""

import base64
import hmac
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER = "https://login.example"
AUDIENCE = "https://crib.example/mcp"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


def jwk(key: Any, kid: str) -> dict[str, Any]:
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


KEYS = {"keys": [jwk(KEY, "one"), jwk(CURVE, "curve")]}


def token(
    key: Any = KEY, *, kid: str | None = "one", alg: str = "RS256", without: str = "", **claims: Any
) -> str:
    now = int(time.time())
    payload = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": now + 600, "iat": now} | claims
    payload.pop(without, None)
    return f"Bearer {jwt.encode(payload, key, algorithm=alg, headers={} if kid is None else {'kid': kid})}"


def unsigned() -> str:
    claims = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": int(time.time()) + 600}
    return f"Bearer {jwt.encode(claims, '', algorithm='none')}"


def sign_with_public_key() -> str:
    """Sign as if the public key were a secret that both sides share."""

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    claims = {"iss": ISSUER, "sub": "ann", "aud": AUDIENCE, "exp": int(time.time()) + 600}
    content = part({"alg": "HS256", "kid": "one"}) + b"." + part(claims)
    seal = base64.urlsafe_b64encode(hmac.digest(PUBLIC, content, "sha256")).rstrip(b"=")
    return f"Bearer {(content + b'.' + seal).decode()}"
