# One image for both containers: the controller, and the sidecar with its tools.
# Runs as any user without rights, on a read-only root; what is written goes to
# the volumes that config/deployment mounts.
ARG GO_VERSION=1.26
ARG DEBIAN_VERSION=bookworm

FROM golang:${GO_VERSION}-${DEBIAN_VERSION} AS build
WORKDIR /src
# The tools change seldom: they come first, so that their layer is kept.
COPY hack/build-tools.sh hack/
COPY hack/tools hack/tools
RUN for family in carvel helm sops cue kustomize jsonnet; do hack/build-tools.sh "$family" || exit 1; done
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=develop
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.Version=${VERSION}" -o bin/garboard ./cmd/garboard

FROM debian:${DEBIAN_VERSION}-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/bin/garboard /usr/local/bin/garboard
# Each by name, so that nothing comes along unnoticed.
COPY --from=build \
     /src/bin/tools/cue \
     /src/bin/tools/helm \
     /src/bin/tools/jsonnet \
     /src/bin/tools/kbld \
     /src/bin/tools/kustomize \
     /src/bin/tools/sops \
     /src/bin/tools/vendir \
     /src/bin/tools/ytt \
     /usr/local/bin/
# OpenSSH refuses to run for a user without a name. Under another user than this
# one, which some clusters choose, all works but git over SSH.
RUN useradd --uid 1000 --gid 0 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin garboard
USER 1000:0
ENV HOME=/tmp
ENTRYPOINT ["/usr/local/bin/garboard"]
