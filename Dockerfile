# Both programs on Debian 12; docs/install.md says how to use it.
FROM debian:12 AS build
WORKDIR /src
COPY . .
RUN script/package

FROM debian:12-slim
COPY --from=build /src/build/package/greta_*.deb /tmp/
RUN apt-get update && \
    apt-get install -y --no-install-recommends /tmp/greta_*.deb sqlite3 && \
    rm -rf /var/lib/apt/lists/* /tmp/greta_*.deb
WORKDIR /data
CMD ["greta-db", "--help"]
