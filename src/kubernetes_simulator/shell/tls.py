"""A throw-away authority and a server certificate of it; the key lives in a temporary file.

kubectl sends no token over plain HTTP, so that TLS is what it needs.
"""

import datetime as dt
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 3650
HOST = "kubernetes-simulator"


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(
    key: ec.EllipticCurvePrivateKey,
    above: tuple[x509.Name, ec.EllipticCurvePrivateKey],
    name: x509.Name,
) -> x509.Certificate:
    """Return a certificate of a key, signed by the authority above it, which may be itself."""
    issuer, signer = above
    authority = issuer == name
    start = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(_usage(signs=authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if not authority:
        names = [
            x509.DNSName("localhost"),
            x509.DNSName(HOST),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        ]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        made = made.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return made.sign(signer, hashes.SHA256())


def throw_away() -> tuple[ssl.SSLContext, bytes]:
    """Return a server context, and the authority's certificate by which clients trust it (PEM)."""
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name(f"{HOST}-ca")
    authority = _certificate(root, (issuer, root), issuer)
    own = _certificate(key, (issuer, root), _name(HOST))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    pem = serialization.Encoding.PEM
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.pem"
        path.touch(mode=0o600)
        secret = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(secret + own.public_bytes(pem))
        context.load_cert_chain(path)
    return context, authority.public_bytes(pem)
