# pkgtools itself, for pipelines without Python.
#
#   docker build -f docker/pkgtools.Dockerfile -t pkgtools .
#   docker run --rm -v "$PWD:/work" pkgtools pkgtools lock --check
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
# For a build that cannot reach a package index: a folder of wheels below /src, with hatchling.
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY . /src
RUN python3 -m venv /opt/pkgtools && \
    /opt/pkgtools/bin/python -m pip install --no-cache-dir --disable-pip-version-check /src

FROM ${PYTHON}
# git: for commits as sources, and for `changelog check`.
RUN apt-get update && \
    apt-get install -y --no-install-recommends git && \
    rm -rf /var/lib/apt/lists/* && \
    git config --system --add safe.directory '*'
COPY --from=build /opt/pkgtools /opt/pkgtools
ENV PATH=/opt/pkgtools/bin:$PATH
# No ENTRYPOINT: runners of pipelines start a shell. Their checkout belongs to root.
WORKDIR /work
CMD ["pkgtools", "--help"]
