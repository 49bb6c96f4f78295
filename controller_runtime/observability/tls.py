"""A certificate for a server whose clients do not check it: made in memory, never on disk.

Metrics are scraped over HTTPS so that tokens are not sent in the clear; the scraper is told to accept any
certificate. Relies on `cryptography`, imported only here and only when asked, since it costs 16 MiB.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

_LIFETIME = timedelta(days=3650)


def self_signed_context(common_name: str) -> ssl.SSLContext:
    """A server's TLS context (1.2 at least) with a new key and a certificate in that name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, _self_signed(common_name))
    return context


def _self_signed(common_name: str) -> bytes:
    """Key and certificate in one PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name[:64])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(common_name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Give a PEM to OpenSSL, which reads files only: an anonymous one in memory where the system has those."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tls.pem")
            file.touch(mode=0o600)
            file.write_bytes(pem)
            context.load_cert_chain(file)
        return
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
