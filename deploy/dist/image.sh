#!/bin/bash
# Makes the container image as an OCI archive, without a daemon: one layer with the programs, nothing else.
#
# usage: deploy/dist/image.sh ARCH
#
# Reads target/dist/ARCH/bin and target/dist/ARCH/kubernetes, writes target/dist/evenkeel-VERSION-ARCH.oci.tar, which skopeo, podman and docker load.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

arch=${1:?usage: image.sh ARCH}
made=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/image/blobs/sha256
mkdir -p "$blobs" "$work/layer/usr/bin" "$work/layer/tmp"
install -m 755 "$dist/$arch"/bin/* "$work/layer/usr/bin/"
# In the image, evenkeel has the commands for Kubernetes.
install -m 755 "$dist/$arch/kubernetes/evenkeel" "$work/layer/usr/bin/evenkeel"
chmod 1777 "$work/layer/tmp"

# Puts a file among the blobs; prints "digest size".
blob() {
    local digest
    digest=$(sha256sum "$1" | cut -d' ' -f1)
    mv "$1" "$blobs/$digest"
    echo "sha256:$digest $(stat -c %s "$blobs/$digest")"
}

tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$work/layer" -cf "$work/layer.tar" .
diff_id=sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
gzip -9n "$work/layer.tar"
read -r layer layer_size <<<"$(blob "$work/layer.tar.gz")"

# The image's user has no rights: commands that change the host need --user 0, and say so.
cat >"$work/config" <<JSON
{"created":"$made","architecture":"$(debian_arch "$arch")","os":"linux","config":{"User":"65532:65532","Env":["PATH=/usr/bin"],"Entrypoint":["/usr/bin/evenkeel"],"Labels":{"org.opencontainers.image.title":"evenkeel","org.opencontainers.image.version":"$version","org.opencontainers.image.revision":"$EVENKEEL_COMMIT","org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["$diff_id"]},"history":[{"created":"$made","created_by":"deploy/dist/image.sh"}]}
JSON
read -r config config_size <<<"$(blob "$work/config")"
cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"$config","size":$config_size},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"$layer","size":$layer_size}]}
JSON
read -r manifest manifest_size <<<"$(blob "$work/manifest")"
cat >"$work/image/index.json" <<JSON
{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"$manifest","size":$manifest_size,"platform":{"architecture":"$(debian_arch "$arch")","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"evenkeel:$version"}}]}
JSON
echo '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$work/image" -cf "$dist/evenkeel-$version-$arch.oci.tar" .
