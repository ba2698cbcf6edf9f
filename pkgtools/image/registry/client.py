"""An HTTP client for one registry."""

import base64
import contextlib
import ipaddress
import json
import os
import ssl
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError, InvalidHeader
from urllib3.util import Retry

from pkgtools import __version__
from pkgtools.errors import RegistryError
from pkgtools.image.layer import damaged, digest_of
from pkgtools.image.registry.auth import adapter_of, bearer_of, credentials_of

PLAIN_HTTP: Final = "PKGTOOLS_PLAIN_HTTP"
"""The variable with the hosts, separated by commas, that are used without TLS."""
BROKEN: Final = (requests.RequestException, HTTPError, OSError)
"""The exceptions of a failed connection."""
TRIES: Final = 5
_AGAIN: Final = {429, 500, 502, 503, 504}
_REDIRECTS: Final = {301, 302, 303, 307, 308}
_HOPS: Final = 5
_CONNECT_SECONDS: Final = 15
_READ_SECONDS: Final = 60
_LONGEST_WAIT: Final = 60.0
_BODY_SECONDS: Final = 300
_ERROR_LIMIT: Final = 64 * 1024
_TOKEN_LIMIT: Final = 1024 * 1024
_HUB: Final = {"docker.io": "registry-1.docker.io"}
"""The address of Docker Hub's API differs from its name."""

_Result = TypeVar("_Result")


class BrokenConnectionError(RegistryError):
    """A failure of the connection or a response that is worth another try."""

    wait: float = 0


class RegistryClient:
    """One registry, with the user's credentials for it."""

    def __init__(self, host: str, repository: str) -> None:
        self.host = host
        self._repository = repository
        self._address = _HUB.get(host, host)
        self._scopes: dict[str, str] = {}
        self._authorization = ""
        self._secrets: set[str] = set()
        self._session = requests.Session()
        self._session.auth = lambda request: request  # or requests would use ~/.netrc
        # A cookie could follow a redirect to another host.
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.headers.update(
            {"User-Agent": f"pkgtools/{__version__}", "Accept-Encoding": "identity"}
        )
        if (adapter := adapter_of(host)) is not None:
            self._session.mount(f"https://{self._address}/", adapter)

    def close(self) -> None:
        """Close all connections."""
        self._session.close()

    @cached_property
    def root(self) -> str:
        """The URL of the registry's API."""
        return f"{self._scheme()}://{self._address}/v2/"

    def allow(self, repository: str, actions: str) -> None:
        """Include a repository in the scopes of the next token."""
        if self._scopes.get(repository) != actions:
            self._scopes[repository] = actions
            self._authorization = ""

    def verified(self, path: str, limit: int, label: str, accept: str = "*/*") -> bytes:
        """Return a document whose digest is the last part of its path."""
        found = self.get(path, limit, accept)
        digest = path.rpartition("/")[2]
        if found is None or digest_of(found[0]) != digest:
            raise damaged(f"{label}: {self.host} does not have {digest}")
        return found[0]

    def get(
        self, path: str, limit: int, accept: str = "*/*"
    ) -> tuple[bytes, Mapping[str, str]] | None:
        """Return a document and its headers; None if it does not exist."""

        def attempt() -> tuple[bytes, Mapping[str, str]] | None:
            ok, headers = {200, 404}, {"Accept": accept}
            with self.request("GET", path, ok=ok, headers=headers, tries=1) as response:
                body = self.body(response, limit)
                return (body, response.headers) if response.status_code == 200 else None

        return self.retried(attempt)

    def request(  # noqa: PLR0913 - keywords
        self,
        method: str,
        path: str,
        *,
        ok: Collection[int],
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        tries: int = TRIES,
    ) -> Any:
        """Return the response to a request, before its body is read; the caller closes it.

        The path is relative to the API, or a URL that the registry gave. The statuses `ok` are
        expected. The headers are without the credentials.

        Raises:
            BrokenConnectionError: all tries failed.
            RegistryError: the response has another status.
        """
        request = requests.Request(method, urljoin(self.root, path), dict(headers or {}), data=data)
        response = self.retried(lambda: self._authorized(request), tries)
        if response.status_code not in ok:
            with response:
                raise self._refused(method, request.url, response)
        return response

    def retried(self, attempt: Callable[[], _Result], tries: int = TRIES) -> _Result:
        """Return what `attempt` returns; it is called again if its connection breaks."""
        for count in range(tries - 1):
            try:
                return attempt()
            except BrokenConnectionError as error:
                self.pause(error, count)
        return attempt()

    def pause(self, error: BrokenConnectionError, count: int) -> None:
        """Wait before the next try: longer each time, or as the registry asks."""
        # Exponential: a busy registry recovers only if its clients back off.
        time.sleep(min(max(error.wait, 0.25 * 2**count), _LONGEST_WAIT))

    def body(self, response: Any, limit: int) -> bytes:
        """Return the body of a response."""
        parts, size, end = [], 0, time.monotonic() + _BODY_SECONDS
        try:
            while part := response.raw.read1(65536):
                parts.append(part)
                size += len(part)
                if size > limit or time.monotonic() > end:
                    raise RegistryError(
                        f"{self.host} sent over {limit} bytes, or for over {_BODY_SECONDS} s",
                        remedy="this is not a sound registry or image",
                    )
        except BROKEN as error:
            raise BrokenConnectionError(
                f"{self.host} broke off a response: {_reason(error)}", remedy="try again"
            ) from None
        return b"".join(parts)

    def _authorized(self, request: requests.Request) -> Any:
        """Send a request, and again with a new token if the registry asks for one."""
        response = self._redirected(request)
        # https://distribution.github.io/distribution/spec/auth/token/. A 401 of another host, where
        # a redirect led, is not about the credentials of this registry.
        if response.status_code == 401 and _origin(response.url) == _origin(self.root):
            with response:
                asked = response.headers.get("WWW-Authenticate", "")
            self._log_in(bearer_of(asked, self.host))
            # Once: a second 401 means that the credentials are wrong, not that the token expired.
            response = self._redirected(request)
        return response

    def _redirected(self, request: requests.Request) -> Any:
        """Send a request and follow redirects; other hosts get no credentials."""
        url = request.url
        for _ in range(_HOPS + 1):
            headers = dict(request.headers)
            # Blobs often redirect to object storage, which must not see the token.
            if self._authorization and _origin(url) == _origin(self.root):
                headers["Authorization"] = self._authorization
            response = self._send(requests.Request(request.method, url, headers, data=request.data))
            # After 301 to 303 a client may change the method (RFC 9110, 15.4): uploads are not
            # redirected.
            if response.status_code not in _REDIRECTS or request.method not in {"GET", "HEAD"}:
                return response
            with response:
                url = self.followed(url, response.headers.get("Location", ""))
        raise RegistryError(
            f"{self.host} redirects more than {_HOPS} times", remedy="this is not a sound registry"
        )

    def followed(self, url: str, location: str) -> str:
        """Return the URL that a registry redirects to."""
        try:
            target = urljoin(url, location)
            scheme, host = urlsplit(target).scheme, _address(target)
        except ValueError:
            scheme, host = "", ""
        # Only a registry without TLS may redirect to a URL without TLS.
        is_plain = scheme == "http" and url.startswith("http:") and _is_plain(host)
        if not host or not (scheme == "https" or is_plain):
            raise RegistryError(
                f"{self.host} redirects to an invalid address, or one without TLS",
                remedy="this is not a sound registry",
            )
        return target

    def _send(self, request: requests.Request) -> Any:
        """Send one request; Session.send() would read the body of a redirect without a bound."""
        address = _address(request.url)
        try:
            prepared = self._session.prepare_request(request)
            url = str(prepared.url)
            settings: Any = self._session.merge_environment_settings(url, {}, True, None, None)
            if is_loopback(address):
                settings["proxies"] = {}  # no proxy has this machine's own address
            settings["timeout"] = (_CONNECT_SECONDS, _READ_SECONDS)
            # An adapter's send() streams: the body is read only within a bound.
            response = self._session.get_adapter(url).send(prepared, **settings)
        except BROKEN as error:
            what = f"{address} does not answer: {_reason(error)}"
            found = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)]
            if any("CERTIFICATE" in (cause.reason or "") for cause in found):
                # Either side's certificate: another try would end in the same way.
                raise RegistryError(
                    what,
                    remedy="put its authority's ca.crt, or your client.cert and client.key, into "
                    f"/etc/docker/certs.d/{address}; or set REQUESTS_CA_BUNDLE=FILE",
                ) from None
            raise BrokenConnectionError(
                what,
                remedy=f"see whether it can be reached; {PLAIN_HTTP}=HOST names one without TLS",
            ) from None
        if response.status_code in _AGAIN:
            with response:
                busy = BrokenConnectionError(
                    f"{address} answered with status {response.status_code}",
                    remedy="try again later",
                )
                # RFC 9110, 10.2.3: a busy registry says when to come back.
                busy.wait = _retry_after(response.headers.get("Retry-After", ""))
            raise busy
        return response

    def _log_in(self, bearer: Mapping[str, str] | None) -> None:
        """Get a token, as a Bearer challenge asks for it; without one, use Basic authentication.

        https://distribution.github.io/distribution/spec/auth/token/
        """
        found = credentials_of(self.host, self._repository)
        if found:
            self._secrets |= {found.password, found.identity_token} - {""}
        basic = ""
        if found and found.username:
            pair = base64.b64encode(f"{found.username}:{found.password}".encode()).decode()
            self._secrets.add(pair)
            basic = f"Basic {pair}"
        if bearer is None:
            self._authorization = basic
            return
        realm = self.followed(self.root, bearer["realm"])
        service = bearer.get("service", "")
        # One token for base and result, because a mount needs to pull one and to push the other.
        scopes = [f"repository:{name}:{what}" for name, what in sorted(self._scopes.items())]
        if found and found.identity_token:  # distribution's "Oauth2 Token Authentication"
            form = {"grant_type": "refresh_token", "refresh_token": found.identity_token}
            form |= {"service": service, "client_id": "pkgtools"}
            request = requests.Request("POST", realm, data={**form, "scope": " ".join(scopes)})
        else:
            headers = {"Authorization": basic} if basic else {}
            asked = {"service": service, "scope": scopes}
            request = requests.Request("GET", realm, headers, params=asked)
        token: object = None
        with self._send(request) as response:
            if response.status_code == 200:
                with contextlib.suppress(ValueError, RecursionError, AttributeError):
                    facts = json.loads(self.body(response, _TOKEN_LIMIT))
                    # Registries send either name; OAuth2 has only access_token (RFC 6749, 5.1).
                    token = facts.get("token") or facts.get("access_token")
        # A line end in a token would add a header to the next request.
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RegistryError(
                f"{self.host} gave no token: status {response.status_code}",
                remedy=f"log in: docker login {self.host}",
            )
        self._secrets.add(token)
        self._authorization = f"Bearer {token}"

    def _refused(self, method: str, url: str, response: Any) -> RegistryError:
        """Return the error of a response, without secrets that the response repeats."""
        try:
            facts = json.loads(self.body(response, _ERROR_LIMIT))
            errors = [f"{e['code']}: {e.get('message', '')}" for e in facts["errors"]]
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError, RegistryError):
            errors = []
        said = "; ".join(errors)
        for secret in self._secrets:
            said = said.replace(secret, "***")
        what = f"{self.host} refused {method} {urlsplit(url).path}: status {response.status_code}"
        denied = response.status_code in {401, 403}
        return RegistryError(
            f"{what} {said[:200]!r}" if said else what,
            remedy=f"log in: docker login {self.host}" if denied else "see the name of the image",
        )

    def _scheme(self) -> str:
        if not is_loopback(self._address):
            return "http" if _is_plain(self._address) else "https"
        try:  # as docker does: a registry on this machine need not have TLS
            url = f"http://{self._address}/v2/"
            with self._send(requests.Request("GET", url)) as response:
                spoken = response.status_code != 400  # a TLS server's answer
        except RegistryError:
            return "http"
        return "http" if spoken else "https"


def is_loopback(address: str) -> bool:
    """Return whether a host, with or without a port, is this machine."""
    host = urlsplit(f"//{address}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_plain(address: str) -> bool:
    """Return whether a host may be used without TLS."""
    asked = os.environ.get(PLAIN_HTTP, "").replace(" ", "").split(",")
    return address in asked or is_loopback(address)


def _address(url: str) -> str:
    """Return the host and port of a URL, without user and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _retry_after(value: str) -> float:
    """Return the seconds to wait (RFC 9110, section 10.2.3)."""
    try:
        return Retry().parse_retry_after(value)
    except (InvalidHeader, ValueError, OverflowError, OSError):
        return 0


def _reason(error: BaseException) -> str:
    """Return why a connection failed; requests' message would contain the URL's query."""
    reasons = (cause.strerror for cause in _causes(error) if isinstance(cause, OSError))
    return next(filter(None, reasons), type(error).__name__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        inner = [*seen.args, getattr(seen, "reason", None)]
        within = (each for each in inner if isinstance(each, BaseException))
        seen = next(within, seen.__cause__ or seen.__context__)
