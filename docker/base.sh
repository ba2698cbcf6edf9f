#!/usr/bin/env bash
# Build an image in which a release of SGLang serves on a CPU. It starts from Debian packages,
# and adds the dependency group cpu-server and SGLang's wheel.
#
#   docker/base.sh [--small] [--release VERSION] TAG
#
# --small leaves the packages out: SGLang is installed, but does not run. The script needs an
# engine, and, the first time, root and debootstrap. The pip of PYTHON (default python3) downloads
# the packages. The engine keeps each layer as an image, named by a digest of its inputs, so that
# it is built once.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly suite=bookworm python_version=3.11 python="${PYTHON:-python3}" layers=pkgtools-base
# The libraries are Mooncake's; a venv needs python3-venv.
readonly debian_packages=python3,python3-venv,libcurl4,libibverbs1,libnuma1
readonly path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

release='' small=''
while (($#)); do
    case $1 in
        --small) small=yes ;;
        --release) release=$2; shift ;;
        -*) echo "unknown option: $1" >&2; exit 2 ;;
        *) break ;;
    esac
    shift
done
(($# == 1)) || { echo "usage: $0 [--small] [--release VERSION] TAG" >&2; exit 2; }
readonly tag=$1

work=$(mktemp -d)
container=
clean_up() {
    [[ -z $container ]] || docker rm --force --volumes "$container" >/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

as_root() { if ((EUID)); then sudo "$@"; else "$@"; fi; }
digest() { sha256sum | cut -c 1-12; }
exists() { docker image inspect "$1" >/dev/null 2>&1; }

# Import a minimal Debian with Python as the image $1.
make_debian() {
    echo "Debian $suite" >&2
    as_root debootstrap --variant=minbase --include="$debian_packages" "$suite" "$work/root" >"$work/log" ||
        { tail -n 20 "$work/log" >&2; return 1; }
    as_root tar --create --numeric-owner --one-file-system --directory "$work/root" \
        --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' \
        --exclude='./dev/*' . |
        docker import --change "ENV PATH=$path LANG=C.UTF-8" --change 'CMD ["bash"]' - "$1" >/dev/null
    as_root rm -rf "$work/root"
}

# Install the downloaded wheels into the image $1, and commit one more layer as the image $2.
# A volume holds the wheels, so that they stay out of the layer.
install_wheels() {
    local from=$1 to=$2
    shift 2
    container=$(docker create --network none --mount type=volume,target=/mnt "$from" \
        sh -c 'exec python3 "$(echo /mnt/pip-*.whl)/pip" install --quiet --no-index --find-links /mnt \
            --root-user-action ignore --break-system-packages "$@"' sh "$@")
    docker cp "$work/wheels/." "$container:/mnt" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; return 1; }
    docker start --attach "$container"
    docker commit --change 'CMD ["bash"]' "$container" "$to" >/dev/null
    docker rm --volumes "$container" >/dev/null
    container=
    rm -rf "$work/wheels"
}

download() {
    "$python" -m pip download -qq --only-binary :all: --python-version "$python_version" --dest "$work/wheels" "$@"
}

requirements() {
    "$python" -c 'import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["dependency-groups"]["cpu-server"], sep="\n")'
}

# Print the release of the catalog's default target.
default_release() {
    "$python" -c 'import tomllib
with open("targets.toml", "rb") as file:
    catalog = tomllib.load(file)
print(*(t["release"]["version"] for t in catalog["target"] if t["name"] == catalog["default"]))'
}

debian=$layers:debian-$( (declare -p suite debian_packages path; declare -f make_debian install_wheels) | digest)
exists "$debian" || make_debian "$debian"
below=$debian

if [[ -z $small ]]; then
    packages=$layers:cpu-$( (echo "$debian"; requirements) | digest)
    if ! exists "$packages"; then
        echo "packages of the group cpu-server" >&2
        requirements >"$work/requirements.txt"
        download pip --requirement "$work/requirements.txt"
        cp "$work/requirements.txt" "$work/wheels"
        install_wheels "$debian" "$packages" --requirement /mnt/requirements.txt
    fi
    below=$packages
fi

[[ -n $release ]] || release=$(default_release)
made=$layers:sglang-$release-$(echo "$below" | digest)
if ! exists "$made"; then
    echo "SGLang $release" >&2
    download --no-deps pip "sglang==$release"
    install_wheels "$below" "$made" --no-deps "sglang==$release"
fi
docker tag "$made" "$tag"
