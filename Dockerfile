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
RUN for family in carvel vendir helm lfs sops cue kustomize jsonnet; do hack/build-tools.sh "$family" || exit 1; done
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=develop
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.Version=${VERSION}" -o bin/garboard ./cmd/garboard \
 && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/tools/ssh ./cmd/garboard-ssh \
 && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/tools/unpack ./cmd/garboard-unpack \
 && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/tools/resolve ./cmd/garboard-resolve

FROM debian:${DEBIAN_VERSION}-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/bin/garboard /usr/local/bin/garboard
# Each by name, so that nothing comes along unnoticed. This ssh comes before that of
# openssh-client, which refuses to run for a user without a name.
COPY --from=build \
     /src/bin/tools/cue \
     /src/bin/tools/git-lfs \
     /src/bin/tools/helm \
     /src/bin/tools/jsonnet \
     /src/bin/tools/kbld \
     /src/bin/tools/kustomize \
     /src/bin/tools/resolve \
     /src/bin/tools/sops \
     /src/bin/tools/ssh \
     /src/bin/tools/unpack \
     /src/bin/tools/vendir \
     /src/bin/tools/ytt \
     /usr/local/bin/
USER 1000:0
ENV HOME=/tmp
ENTRYPOINT ["/usr/local/bin/garboard"]
