# provision in a container: one static binary and the iPXE binaries of Debian 13.
# Run it with host networking and NET_BIND_SERVICE, NET_BROADCAST and NET_RAW.
FROM golang:1.26-trixie AS build
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /provision ./cmd/provision

FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates ipxe && rm -rf /var/lib/apt/lists/*
COPY --from=build /provision /usr/bin/provision
VOLUME ["/var/lib/provision", "/var/cache/provision"]
WORKDIR /etc/provision
ENTRYPOINT ["/usr/bin/provision"]
