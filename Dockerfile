# provision in a container: one static binary, the iPXE binaries, and the list of
# what is inside. `make image` builds it; docs/install.md says how to run it.
#
# GO_IMAGE and DEBIAN_IMAGE take a digest (NAME@sha256:…) where a build has to be
# repeatable. Where no registry is to be had, deploy/image/base.sh makes both.
ARG GO_IMAGE=golang:1.26-trixie
ARG DEBIAN_IMAGE=debian:trixie-slim

# The binary, and the program that writes the SBOM. Both are static, and neither
# depends on where or when they are built.
FROM ${GO_IMAGE} AS build
ARG VERSION=dev
ARG TARGETOS=linux
ARG TARGETARCH
# The machine's own way to Go modules and its caches, where it has them.
ARG GOPROXY
ARG GOSUMDB
ARG GONOSUMDB
ARG GOPRIVATE
ARG GOFLAGS
ARG GOCACHE=/root/.cache/go-build
ARG GOMODCACHE=/go/pkg/mod
ENV GOTOOLCHAIN=local
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/root/.cache/go-build --mount=type=cache,target=/go/pkg/mod \
    CGO_ENABLED=0 GOOS="$TARGETOS" GOARCH="$TARGETARCH" \
      go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /out/usr/bin/provision ./cmd/provision \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /tools/sbom ./deploy/image/sbom \
 && mkdir -p /out/usr/share/doc/provision && GOOS="$TARGETOS" GOARCH="$TARGETARCH" sh deploy/image/notices.sh >/tools/notices \
 && gzip -9 -n </tools/notices >/out/usr/share/doc/provision/THIRD-PARTY-NOTICES.gz
# The program may open ports below 1024 and raw sockets whoever starts it, as long
# as its container may: that is what lets it run as nobody in particular.
RUN command -v setcap >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends libcap2-bin; } \
 && setcap cap_net_bind_service,cap_net_raw+ep /out/usr/bin/provision

# iPXE from source, for IPXE=source alone; else it leaves an empty folder. It needs
# a way to IPXE_URL and to Debian's archive.
FROM ${DEBIAN_IMAGE} AS ipxe
ARG IPXE=debian
ARG IPXE_URL=https://github.com/ipxe/ipxe.git
ARG IPXE_REF
COPY deploy/image/ipxe.sh /tmp/ipxe.sh
RUN mkdir -p /out && if [ "$IPXE" = source ]; then sh /tmp/ipxe.sh "$IPXE_URL" "$IPXE_REF" /out; fi

# The file system: certificates, iPXE, a user of its own, no program that changes
# the user, and nothing that says when it was made.
FROM ${DEBIAN_IMAGE} AS root
ARG IPXE=debian
COPY deploy/image/root.sh /tmp/root.sh
RUN sh /tmp/root.sh "$IPXE" && rm /tmp/root.sh
COPY --from=ipxe /out/ /

# What is in it: Go modules of the binary, packages of the file system.
FROM build AS contents
ARG VERSION=dev
ARG IPXE=debian
ARG IPXE_URL=https://github.com/ipxe/ipxe.git
ARG IPXE_REF
ARG SOURCE_DATE_EPOCH=0
COPY --from=root /var/lib/dpkg/status /tools/status
COPY --from=root /etc/os-release /tools/os-release
RUN cp LICENSE /out/usr/share/doc/provision/copyright \
 && /tools/sbom -binary /out/usr/bin/provision -version "$VERSION" -epoch "$SOURCE_DATE_EPOCH" \
      -dpkg /tools/status -os-release /tools/os-release \
      $([ "$IPXE" != source ] || echo "-source ipxe@$IPXE_REF=$IPXE_URL") \
      -out /out/usr/share/doc/provision/sbom.cdx.json

FROM root
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
ARG DEBIAN_IMAGE=debian:trixie-slim
LABEL org.opencontainers.image.title="provision" \
      org.opencontainers.image.description="Installs Talos Linux on a fleet of bare-metal servers through their BMCs" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED" \
      org.opencontainers.image.source="https://github.com/talos-provision/provision" \
      org.opencontainers.image.documentation="https://github.com/talos-provision/provision/blob/main/docs/install.md" \
      org.opencontainers.image.licenses="Apache-2.0 AND GPL-2.0-or-later" \
      org.opencontainers.image.base.name="$DEBIAN_IMAGE" \
      org.talos-provision.sbom="/usr/share/doc/provision/sbom.cdx.json"
COPY --from=contents /out/ /
# 67 and 4011 DHCP, 69 TFTP, 8080 HTTP; 9090 only where admin.listen opens it.
EXPOSE 67/udp 4011/udp 69/udp 8080/tcp 9090/tcp
VOLUME ["/var/lib/provision", "/var/cache/provision"]
WORKDIR /etc/provision
USER 65532:65532
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 CMD ["/usr/bin/provision", "healthz"]
ENTRYPOINT ["/usr/bin/provision"]
CMD ["serve"]
