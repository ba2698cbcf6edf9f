"""Images in a Docker engine, local or remote, through its API."""

import base64
import contextlib
import io
import json
import os
import re
import secrets
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import docker
import requests
from docker.context.config import get_current_context_name
from docker.errors import APIError, DockerException, ImageLoadError, ImageNotFound
from docker.types import LogConfig

from pkgtools.errors import EngineError, UsageError
from pkgtools.image.archive import ArchiveImage, add_image, layer_name, write_archive
from pkgtools.image.inside import FIND, READ
from pkgtools.image.layer import Member
from pkgtools.image.merged import StoredLayer, merge
from pkgtools.image.model import Config, NewImage, Runnable, Stored, base_is_kept
from pkgtools.image.names import NAME, REFERENCE, split_tag, with_tag
from pkgtools.image.package import (
    METADATA_FILES,
    FoundPackage,
    PackageQuery,
    choose_folder,
    package_at,
)
from pkgtools.util.files import no_temporary_files

_PYTHONS: Final = ("python3", "python")
_SECONDS: Final = 120
_SHARED_MEMORY: Final = "1g"
"""The shared memory of a container. Docker's default of 64 MiB is too small for servers."""
_LOG_SIZE: Final = "1g"
"""Far beyond what any program here prints, and a bound for one that never ends."""
_NO_PROGRAM: Final = re.compile("not found|no such file", re.IGNORECASE)


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Convert the SDK's exceptions into an `EngineError`."""
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        reason = getattr(error, "explanation", None) or str(error) or type(error).__name__
        raise EngineError(
            f"the Docker engine failed: {reason}",
            remedy="see `docker info`; DOCKER_HOST or `docker context use` names another engine, "
            "oci: and docker-archive: need none",
        ) from None


def connect() -> tuple[docker.DockerClient, str]:
    """Return a client of the engine that the docker command would use, and that one's address.

    DOCKER_HOST wins over DOCKER_CONTEXT, and that over the current context, as they do there.
    """
    with engine_errors():
        try:
            return _connected()
        except (DockerException, requests.RequestException):
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # The SDK takes an address, config.json and a context to be what they should be.
            raise EngineError(
                f"the configuration of the Docker engine cannot be read: {error!r}",
                remedy="see DOCKER_HOST, and config.json and contexts in ~/.docker",
            ) from None


def _connected() -> tuple[docker.DockerClient, str]:
    # The order of docker's own command line: https://docs.docker.com/engine/manage-resources/contexts/.
    if host := os.environ.get("DOCKER_HOST"):
        return docker.from_env(timeout=_SECONDS), host  # which asks for its version
    name = os.environ.get("DOCKER_CONTEXT") or get_current_context_name()
    context = docker.ContextAPI.get_context(name)
    if context is None:
        raise EngineError(f"there is no Docker context {name}", remedy="see `docker context ls`")
    tls = context.TLSConfig or False  # type: ignore[truthy-bool] # None without TLS
    client = docker.DockerClient(base_url=context.Host, tls=tls, timeout=_SECONDS)
    return client, str(context.Host)


class EngineImage(Runnable):
    """One image of an engine."""

    def __init__(self, reference: str, tree: str | None, python: str | None) -> None:
        if not REFERENCE.fullmatch(reference):
            raise UsageError(
                f"invalid image name {reference!r}",
                remedy="give a name from `docker images`, oci:DIR[:NAME] or "
                "docker-archive:FILE[:NAME]",
            )
        self.reference = reference
        self._tree = tree
        self._pythons = (python,) if python else _PYTHONS
        self._client, address = connect()
        with engine_errors():
            try:
                self._image = self._client.images.get(reference)
            except ImageNotFound:
                raise UsageError(
                    f"the engine has no image {reference}", remedy=f"docker pull {reference}"
                ) from None
            self.id = str(self._image.id)
            self.name = self._name(reference)
            self.config = _config(self._image)
            self.identity = self._identity(address, tree or "", python or "")
            digests = self._image.attrs.get("RepoDigests") or []
            repository, _ = split_tag(reference)
            own = [d.partition("@")[2] for d in digests if d.startswith(f"{repository}@")]
        self.manifest_digest = own[0] if own else None

    def _identity(self, *asked: str) -> tuple[str, ...] | None:
        """Return what decides where the image's Python finds the package.

        Images with the same layers and these settings share it, whatever their labels and commands.
        Some engines' ids are of an index, whichever of its platforms is there, so the id is only
        used without layers. The engine's address is part of it: another engine can lie about
        layers.
        """
        facts = self.config.facts
        settings = [facts["config"].get(key) or "" for key in ("Env", "User", "WorkingDir")]
        return (*(facts["rootfs"]["diff_ids"] or [self.id]), json.dumps(settings), *asked)

    def _name(self, reference: str) -> str | None:
        """Return the name that a reference is, however it is spelt; None where it is an id."""
        if "@" in reference:
            return reference
        name = with_tag(reference)
        if name in (self._image.attrs.get("RepoTags") or []):
            return name
        is_id = self.id.removeprefix("sha256:").startswith(reference.removeprefix("sha256:"))
        return None if is_id else name

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def find(self, query: PackageQuery) -> FoundPackage:
        """Return where the image's own Python finds the package; see `Image.find`."""
        package = query.upstream.package
        tree = f"/{self._tree.strip('/')}" if self._tree else ""
        lists = json.dumps(sorted(query.files)), json.dumps(sorted(METADATA_FILES))
        lines = [*filter(None, self.run(["-c", FIND, package, tree, *lists]))]
        with self._answer(f"where {package!r} is"):
            folders, names = (
                [str(p).strip("/") for p in json.loads(line)] for line in lines[-3:-1]
            )
            members = self._unpacked(lines[-1])
        if self._tree is None and len(folders) == 1 and ".." not in folders[0].split("/"):
            return package_at(query, folders[0], members, names)
        folder = choose_folder(query, folders, self._tree, self.reference)
        return package_at(query, folder, members, names)

    def read(self, paths: Collection[str]) -> dict[str, Member]:
        """Return the member at each existing path; see `Image.read`."""
        if not paths:
            return {}
        named = [f"/{path}" for path in sorted(paths)]
        lines = list(self.run(["-c", READ, *named]))
        with self._answer(f"what is at {', '.join(named)}"):
            return {p: m for p, m in self._unpacked(lines[-1]).items() if p in paths}

    @contextlib.contextmanager
    def _answer(self, question: str) -> Iterator[None]:
        """Convert the exceptions of a malformed answer into a `UsageError`."""
        try:
            yield
        except (ValueError, IndexError, TypeError, RecursionError) as error:
            raise UsageError(
                f"the Python of {self.reference} did not tell {question}: {error}",
                remedy="name another with --python, or save the image and give docker-archive:FILE",
            ) from None

    def _unpacked(self, line: str) -> dict[str, Member]:
        """Unpack the files that the image's Python sent."""
        raw = base64.b64decode(line, validate=True)
        sent = StoredLayer(f"what {self.reference} sent", lambda: io.BytesIO(raw))
        return merge([sent], lambda _: True)

    def default_name(self, suffix: str) -> str:
        """Return this image's name with a suffix on its tag."""
        if self.name is None or "@" in self.name:
            raise UsageError(
                f"{self.reference} has no tag to add a suffix to",
                remedy="name the new image with --tag",
            )
        return f"{with_tag(self.name)}-{suffix}"

    def refuse_name(self, name: str) -> None:
        """Reject an invalid name for the new image; see `ImageStore.refuse_name`."""
        if not NAME.fullmatch(name):
            raise UsageError(
                f"invalid image name {name!r}: the base {self.reference} is in the Docker engine",
                remedy="give one like registry.example.com/sglang:v0.5.23-k3 with --tag; "
                "`docker save` or skopeo writes it to a file afterwards",
            )
        with engine_errors(), contextlib.suppress(ImageNotFound):
            if self._client.images.get(name).id == self._image.id:  # in any spelling
                raise base_is_kept(name)

    def store(self, new: NewImage, name: str) -> Stored:
        """Load an image into the engine.

        The engine has the layers of the base and needs only the new one; an engine
        that wants them all is given them all.
        """
        self.refuse_name(name)
        with engine_errors():
            if not self._load_thin(new, name):
                self._load_whole(new, name)
            found = self._client.images.get(name)
        if found.attrs["RootFS"]["Layers"] != new.config.facts["rootfs"]["diff_ids"]:
            raise EngineError(
                f"the engine has other layers in {name} than were given to it",
                remedy="save the base, and build on docker-archive:FILE instead",
            )
        return Stored(str(found.id))

    def push(self, name: str) -> str:
        """Push an image to its registry; see `Runnable.push`."""
        digest = None
        with engine_errors():
            for event in self._client.images.push(name, stream=True, decode=True):
                if "error" in event:
                    raise EngineError(
                        f"{name} cannot be pushed: {event['error']}",
                        remedy="it is built: once its registry answers, and `docker login` was "
                        f"done where it asks for that, `docker push {name}`",
                    )
                digest = event.get("aux", {}).get("Digest", digest)
        if digest is None:
            raise EngineError(
                f"push of {name} returned no digest",
                remedy=f"ask the registry: docker buildx imagetools inspect {name}",
            )
        return str(digest)

    def _load_thin(self, new: NewImage, name: str) -> bool:
        """Load only the new layer; return whether the engine accepted it."""
        *below, _ = map(layer_name, new.config.facts["rootfs"]["diff_ids"])
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            add_image(archive, new, below, [with_tag(name)])
        try:
            self._client.images.load(out.getvalue())
        except (APIError, ImageLoadError, ImageNotFound):
            return False
        return True

    def _load_whole(self, new: NewImage, name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            base, whole = Path(folder, "base.tar"), Path(folder, "new.tar")
            try:
                with base.open("wb") as file:
                    file.writelines(self._image.save())
                with ArchiveImage(base) as image, whole.open("wb") as out:
                    write_archive(image, new, [with_tag(name)], out)
            except requests.RequestException:  # an OSError, too
                raise
            except OSError as error:
                raise no_temporary_files(error) from None
            base.unlink()
            with whole.open("rb") as file:
                self._client.images.load(file)

    @contextlib.contextmanager
    def _container(self, command: Sequence[str], files: bytes) -> Iterator[Any]:
        """Create a container without network, and remove it, with its program, on leaving.

        The image's entry point is not run.
        """
        name = f"pkgtools-{secrets.token_hex(8)}"
        try:
            container = self._client.containers.create(
                self.id,
                name=name,
                entrypoint=[command[0]],
                command=list(command[1:]),
                network_disabled=True,
                shm_size=_SHARED_MEMORY,
                environment={"PYTHONDONTWRITEBYTECODE": "1"},
                # Its output is read from the log, so the log must keep all of it. Engine defaults
                # can rotate the log at 1 MB or drop lines.
                log_config=LogConfig(
                    type="json-file", config={"max-size": _LOG_SIZE, "mode": "blocking"}
                ),
            )
            if files:
                container.put_archive("/", files)
            yield container
        finally:  # by name: the engine may have created it without answering
            with contextlib.suppress(DockerException, requests.RequestException):
                self._client.api.remove_container(name, force=True, v=True)

    def run(self, arguments: Sequence[str], files: bytes = b"") -> Iterator[str]:
        """Run the image's Python in a container; see `Runnable.run`."""
        reason = ""
        for python in self._pythons:
            command = [python, *arguments]
            with engine_errors(), self._container(command, files) as container:
                lines = _run_lines(container)
                try:
                    first = next(lines, None)
                except APIError as error:
                    reason = str(error.explanation)
                    # Docker's answer is the client's fault, podman's is not.
                    if not (error.is_client_error() or _NO_PROGRAM.search(reason)):
                        raise
                    continue
                if first is not None:
                    yield first
                    yield from lines
                status = int(container.wait()["StatusCode"])
                said = container.logs(stdout=False, stderr=True, tail=100)
            if status != 0:
                last = said.decode(errors="replace").strip().splitlines()[-1:]
                reason = last[0] if last else f"status {status}"
                raise EngineError(f"{python} of {self.reference} failed: {reason}")
            return
        raise UsageError(
            f"{self.reference} does not run {' or '.join(self._pythons)}: {reason}",
            remedy="name its interpreter with --python; or save the image with `docker save`, and "
            "give docker-archive:FILE to a command that does not run it",
        )


def _config(image: Any) -> Config:
    """Return an image's configuration, as far as the engine's API reports it.

    The history is left out where the API does not tell which of its steps made a layer.
    """
    attrs = image.attrs
    steps = [
        {
            "created": datetime.fromtimestamp(step["Created"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "created_by": step["CreatedBy"],
            **({"comment": step["Comment"]} if step.get("Comment") else {}),
            **({} if step["Size"] else {"empty_layer": True}),
        }
        for step in reversed(image.history())
    ]
    layers = attrs["RootFS"].get("Layers") or []
    told = sum("empty_layer" not in step for step in steps) == len(layers)
    facts = {
        "architecture": attrs["Architecture"],
        "os": attrs["Os"],
        "variant": attrs.get("Variant"),
        "author": attrs.get("Author"),
        "created": attrs.get("Created"),
        "config": attrs.get("Config") or {},
        "rootfs": {"type": "layers", "diff_ids": layers},
        "history": steps if told else [],
    }
    return Config(json.dumps({k: v for k, v in facts.items() if v}).encode())


def _run_lines(container: Any) -> Iterator[str]:
    """Start a container's program and yield what it prints on stdout, line by line.

    Raises:
        docker.errors.APIError: the image does not contain the program.
    """
    container.start()
    left = b""
    for chunk in container.logs(stdout=True, stderr=False, stream=True, follow=True):
        *whole, left = (left + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if left:
        yield left.decode(errors="replace")
