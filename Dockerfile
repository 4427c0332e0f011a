# The digest is the one that public files record for this tag; `docker buildx imagetools inspect python:3.11-slim-bookworm`
# tells the newest, to be given with --build-arg BASE=... or written here.
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

# Build: everything from the lock into one virtual environment, and the engine compiled once.
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/tenure
COPY requirements.lock ./
RUN /opt/tenure/bin/pip install --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE tenure_command.py ./
COPY clients/tenure-client ./clients/tenure-client
COPY app ./app
COPY migrations ./migrations
RUN /opt/tenure/bin/pip install --no-deps --no-build-isolation ./clients/tenure-client .
# For any processor of this architecture, not for the one that builds the image; a short evaluation compiles the engine.
ENV NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=/opt/tenure/compiled
WORKDIR /tmp/warm
RUN /opt/tenure/bin/tenure trace synth --days 3 --mean-utilisation 8 --cores 1 --seed 1 --out on_demand.csv \
    && /opt/tenure/bin/tenure trace synth --days 3 --mean-utilisation 8 --cores 1 --seed 2 --out spot.csv \
    && /opt/tenure/bin/tenure evaluate --nodes 4x4 --on-demand on_demand.csv --spot spot.csv --sla 0.1 --samples 100 \
    && /opt/tenure/bin/python -c "from app.processes.warming import warm_up, warm_up_worker; warm_up(); warm_up_worker()"

# Run: the environment alone, as a user of its own, who can change none of it but what is compiled: the compiler wants to
# write where it reads. Without TENURE_DATABASE_URL the service keeps its data in the volume.
FROM ${BASE}
RUN useradd --system --uid 10001 --no-create-home tenure \
    && install --directory --owner=tenure --group=tenure /var/lib/tenure
COPY --from=build /opt/tenure /opt/tenure
COPY --from=build --chown=tenure:tenure /opt/tenure/compiled /opt/tenure/compiled
ENV PATH=/opt/tenure/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CPU_NAME=generic \
    NUMBA_CACHE_DIR=/opt/tenure/compiled \
    TENURE_HOST=0.0.0.0 \
    TENURE_PORT=8080 \
    TENURE_DATA_DIR=/var/lib/tenure \
    TENURE_LOG_FORMAT=json
USER 10001:10001
WORKDIR /var/lib/tenure
VOLUME /var/lib/tenure
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthcheck', timeout=4)"]
CMD ["tenure", "run"]
