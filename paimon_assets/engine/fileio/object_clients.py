"""Clients of object stores: the options of a storage as obstore takes them, and its errors.

`s3`, `s3a`, `gs`, `gcs`, `abfs`, `abfss` and `az` are opened here, one client a bucket and process.
"""

import datetime as dt
import errno
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from paimon_assets.engine.errors import ACCESS_DENIED, InvalidInputError, StorageError
from paimon_assets.engine.fileio.base import GOOGLE_SCHEMES, S3_SCHEMES
from paimon_assets.engine.fileio.s3_listing import S3Listing
from paimon_assets.engine.spec.options.option import parse_duration_ms

_ATTEMPTS = 6
"""Of a request, if AWS_MAX_ATTEMPTS does not say."""
_LIMITS = {"connect_timeout": "10 s", "read_timeout": "60 s", "timeout": "300 s"}
"""Options of every storage: of a connection, of a server's silence, and of a whole request."""
_RENEWAL = dt.timedelta(minutes=5)
"""So often keys of profiles, roles and machines are asked for again."""
_NAMES = {
    "key": "access_key_id",
    "access_key": "access_key_id",
    "secret": "secret_access_key",
    "secret_key": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region_name": "region",
    "anon": "skip_signature",
    "sas_token": "sas_key",
}
"""Other names of obstore's settings: Paimon's, and those of fsspec's filesystems."""
_BUCKET_MISSING = frozenset({"NoSuchBucket", "ContainerNotFound"})
BUCKET_MISSING = errno.ENXIO
"""Error number of a request to a bucket that does not exist."""
_NUMBERS = {
    "NotFoundError": errno.ENOENT,
    "FileNotFoundError": errno.ENOENT,
    "AlreadyExistsError": errno.EEXIST,
    "PreconditionError": errno.EEXIST,
    "PermissionDeniedError": errno.EACCES,
    "UnauthenticatedError": errno.EACCES,
}
_STATUS_NUMBERS = {
    "401": errno.EACCES,
    "403": errno.EACCES,
    "404": errno.ENOENT,
    "412": errno.EEXIST,
}
NOT_OF_S3 = "without S3's own code; look at the storage's endpoint, and at proxies in front of it"
_CREDENTIALS_ENDED = frozenset({"", "ExpiredToken", "InvalidToken"})
"""Codes of answers 400 about credentials; one to a HEAD has none."""
_users_process: list[int] = []
"""The process that uses clients; their threads do not survive a fork."""


class _Clients(NamedTuple):
    store: Any
    """Of obstore."""
    listing: S3Listing | None
    """None for other storages than S3."""


def client_of(scheme: str, authority: str, options: Mapping[str, str]) -> Any:
    """Return obstore's client of a bucket or container; see `_clients_of`."""
    return _clients_of(scheme, authority, options).store


def listing_of(scheme: str, authority: str, options: Mapping[str, str]) -> S3Listing | None:
    """Return the client that lists a bucket of S3; None for other storages."""
    return _clients_of(scheme, authority, options).listing


def _clients_of(scheme: str, authority: str, options: Mapping[str, str]) -> _Clients:
    """Return the clients of a bucket or container; options have the names of `fileio.opening`.

    Raises:
        StorageError: No credentials are found, or this process was forked from one with clients.
    """
    if not _users_process:
        _users_process.append(os.getpid())
    if _users_process != [os.getpid()]:
        raise StorageError(
            f"This process was forked from one that had used an object store, whose connections do "
            f"not survive that, so '{scheme}://{authority}' cannot be opened. Start processes by "
            "spawn or forkserver: multiprocessing.get_context('spawn').",
            kind="forked",
        )
    try:
        return _client(scheme, authority, tuple(sorted(options.items())))
    except (StorageError, InvalidInputError):
        raise
    except Exception as error:  # noqa: BLE001 - it is raised again
        # Its text may quote an option value.
        raise StorageError(
            f"Storage '{scheme}://{authority}' could not be opened ({type(error).__name__}); look "
            f"at its options {', '.join(sorted(options)) or '(none)'}.",
            scheme=scheme,
        ) from None


@lru_cache(maxsize=64)
def _client(scheme: str, authority: str, options: tuple[tuple[str, str], ...]) -> _Clients:
    stores = import_module("obstore.store")
    settings: dict[str, Any] = {}
    configured = _client_options(scheme)
    everything = {**configured, **configured.get("client_kwargs", {}), **dict(options)}
    for option, value in everything.items():
        if not isinstance(value, Mapping):
            name = option.replace("-", "_")
            settings[_NAMES.get(name, name)] = value
    limits = {name: _limit(scheme, name, settings.pop(name, None)) for name in _LIMITS}
    attempts = int(os.environ.get("AWS_MAX_ATTEMPTS") or _ATTEMPTS)
    backoff = {
        "init_backoff": dt.timedelta(milliseconds=100),
        "max_backoff": dt.timedelta(seconds=5),
        "base": 2,
    }
    retries = {"max_retries": max(0, attempts - 1), "backoff": backoff}
    # A server that is silent for so long is not asked again.
    arguments: dict[str, Any] = {
        "retry_config": {**retries, "retry_timeout": limits["read_timeout"]}
    }
    if scheme in S3_SCHEMES:
        opened, provider = stores.S3Store, _s3(settings, authority)
    elif scheme in GOOGLE_SCHEMES:
        opened, provider = stores.GCSStore, _google(settings)
    else:
        opened, provider = stores.AzureStore, _azure(settings, authority)
        authority = authority.partition("@")[0]
    if provider is not None:
        arguments["credential_provider"] = provider
    endpoint = str(settings.get("endpoint") or settings.get("base_url") or "")
    _check_endpoint(scheme, endpoint)
    arguments["client_options"] = {**limits, "allow_http": endpoint.startswith("http:")}
    listing = None
    if scheme in S3_SCHEMES:
        listing = _listing(settings, authority, provider, attempts, limits)
    return _Clients(opened(authority, config=settings, **arguments), listing)


def _limit(scheme: str, name: str, text: object) -> dt.timedelta:
    try:
        return dt.timedelta(milliseconds=parse_duration_ms(str(text or _LIMITS[name])))
    except ValueError as error:
        message = f"Option '{scheme}.{name.replace('_', '-')}' has the value '{text}': {error}."
        raise InvalidInputError(message, kind="option-value") from error


def _check_endpoint(scheme: str, endpoint: str) -> None:
    """Refuse an endpoint that is no URL; obstore would panic."""
    try:
        parts = urlsplit(endpoint)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port
        is_url = False
    if endpoint and (not is_url or re.search(r"[\s<>\"{}|^`\\]", endpoint)):
        message = (
            f"The endpoint of storage '{scheme}' is no URL: write it like http://host:9000 or "
            f"https://host (option '{scheme}.endpoint')."
        )
        raise InvalidInputError(message, kind="storage-endpoint", scheme=scheme)


def _listing(
    settings: Mapping[str, Any],
    bucket: str,
    keys: Callable[[], dict[str, Any]] | None,
    attempts: int,
    limits: Mapping[str, dt.timedelta],
) -> S3Listing:
    """Return a lister of a bucket at the endpoint of obstore, which reads the environment, too."""

    def setting(name: str) -> str:
        return str(settings.get(name) or os.environ.get(f"AWS_{name.upper()}") or "")

    endpoint, region = str(settings.get("endpoint") or ""), settings["region"]
    if _is_true(setting("virtual_hosted_style_request")):
        url = endpoint or f"https://{bucket}.s3.{region}.amazonaws.com"
    else:
        url = f"{(endpoint or f'https://s3.{region}.amazonaws.com').rstrip('/')}/{bucket}"
    seconds = (limits[name].total_seconds() for name in ("connect_timeout", "read_timeout"))
    return S3Listing(
        url=url,
        region=region,
        keys=keys,
        attempts=max(1, attempts),
        limits=tuple(seconds),
        verifies=not _is_true(setting("allow_invalid_certificates")),
        proxy=setting("proxy_url"),
        pays=_is_true(setting("request_payer")),
    )


def _client_options(scheme: str) -> dict[str, Any]:
    """Return fsspec's own settings, and import it only if there may be some."""
    is_used = "fsspec" in sys.modules or any(name.startswith("FSSPEC_") for name in os.environ)
    if not (is_used or Path("~/.config/fsspec").expanduser().exists()):
        return {}
    return import_module("fsspec.config").conf.get(scheme) or {}


Provider = Callable[[], dict[str, Any]]
"""Returns credentials; a constant one keeps those of the environment from being mixed with it."""


def _s3(settings: dict[str, Any], bucket: str) -> Provider | None:
    """Complete the settings; return whose keys are used."""
    style = str(settings.pop("path_style_access", "")).strip().lower()
    key, secret = settings.pop("access_key_id", None), settings.pop("secret_access_key", None)
    token, profile = settings.pop("session_token", None), settings.pop("profile", None)
    provider, session = None, None
    if not (key and secret) and not _is_true(settings.get("skip_signature")):
        session = import_module("botocore.session").Session(profile=profile)
        provider = _keys_of_session(session)
        settings.setdefault("region", session.get_config_variable("region"))
    elif key and secret:
        static = {"access_key_id": key, "secret_access_key": secret, "token": token}
        provider = lambda: {**static, "expires_at": None}  # noqa: E731
    endpoint = (
        settings.pop("endpoint", None)
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or (session.get_scoped_config().get("endpoint_url") if session else None)
    )
    if endpoint:
        settings["endpoint"] = endpoint if "://" in endpoint else f"https://{endpoint}"
        settings["aws_endpoint_url_s3"] = settings["endpoint"]  # before the environment's
    elif style != "true" and "." not in bucket:
        settings["virtual_hosted_style_request"] = True
    settings["region"] = settings.get("region") or os.environ.get("AWS_REGION") or "us-east-1"
    return provider


def _keys_of_session(session: Any) -> Provider:
    """Return a provider of botocore's keys: environment, profiles, roles, containers, machines."""
    credentials = session.get_credentials()
    if credentials is None:
        raise StorageError(
            "No credentials for S3: give 's3.access-key' and 's3.secret-key', or set the variables "
            "or the profile of AWS.",
            kind=ACCESS_DENIED,
        )

    def keys() -> dict[str, Any]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": dt.datetime.now(dt.UTC) + _RENEWAL,
        }

    return keys


def _google(settings: dict[str, Any]) -> Provider | None:
    settings.pop("project", None)
    token = settings.pop("session_token", None)
    if "endpoint" in settings:
        settings["base_url"] = settings.pop("endpoint")
    if token == "anon":  # noqa: S105 - not one
        settings["skip_signature"] = True
    elif token and token.lstrip().startswith("{"):
        settings["service_account_key"] = token
    elif token and Path(token).exists():
        settings["application_credentials"] = token
    elif token and token not in ("google_default", "cache", "cloud"):
        return lambda: {"token": token, "expires_at": None}
    return None


def _azure(settings: dict[str, Any], authority: str) -> Provider | None:
    if "session_token" in settings:
        settings["token"] = settings.pop("session_token")
    connection = str(settings.pop("connection_string", None) or "")
    connection = connection or os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    parts = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
    for name, part in (
        ("account_name", "AccountName"),
        ("account_key", "AccountKey"),
        ("sas_key", "SharedAccessSignature"),
        ("endpoint", "BlobEndpoint"),
    ):
        if part in parts:
            settings.setdefault(name, parts[part])
    _, _, host = authority.partition("@")
    if host:
        settings.setdefault("account_name", host.partition(".")[0])
    return None


def _is_true(value: object) -> bool:
    return str(value).strip().lower() == "true"


def os_error(error: BaseException) -> OSError:
    """Return an error of obstore as one with an error number, and without possible secrets.

    The store's answer may hold the session token; only its status and code are shown.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error
    text = str(error)
    status = next(iter(re.findall(r"status code: (\d{3})", text)), "")
    codes = re.findall(r"<Code>(\w+)</Code>|\(code: (\w+)\)", text)
    code = next(("".join(each) for each in codes), "")
    number = _NUMBERS.get(type(error).__name__) or _STATUS_NUMBERS.get(status, errno.EIO)
    if code == "AccessDenied":
        number = errno.EACCES
    if status == "409" and code != "BlobAlreadyExists":
        number = errno.EIO  # S3: another put is under way
    if code in _BUCKET_MISSING or re.search("(bucket|container) does not exist", text):
        return OSError(BUCKET_MISSING, "the bucket does not exist")
    if code in _CREDENTIALS_ENDED and status == "400":
        number = errno.EACCES
    if status == "404" and re.search("performing (PUT|POST)", text):
        number = errno.EIO  # no file is missing
    if "kind: Timeout" in text:
        return OSError(errno.ETIMEDOUT, _TIMEOUT)
    if not status:
        causes = re.findall(r'ConnectError\("([^"]+)"|message: "([^"]+)"', text)
        code = ", ".join(dict.fromkeys(part for parts in causes for part in parts if part))
    if "incorrectly configured region" in text:
        code = "the bucket is in another region: set 's3.region'"
    reason = " ".join(part for part in (status, code) if part)
    failure = f"the storage failed ({reason or type(error).__name__})"
    return OSError(number, "; ".join(filter(None, (failure, _way_out(status, code, text)))))


_TIMEOUT = (
    "no answer in time: the server is silent, or too slow; the storage's options 'connect-timeout' "
    "(10 s by default), 'read-timeout' (60 s) and 'timeout' (300 s, of a whole request), such as "
    "'s3.read-timeout', say how long to wait"
)


def _way_out(status: str, code: str, text: str) -> str:
    """Return advice about an error whose status and code give none."""
    if code in ("ExpiredToken", "InvalidToken"):
        return "the credentials have ended: give new ones, or a profile or role, which renews them"
    if status == "501" or (status == "404" and "performing HEAD" not in text):
        return "the endpoint does not take this request: look if it is the storage's, and S3"
    if not status and re.search(r"InvalidContentType|wrong version number|WRONG_VERSION", text):
        return "the server has no TLS: begin the endpoint with http:// if that is meant"
    return ""
