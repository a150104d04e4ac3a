# syntax=docker/dockerfile:1

# Built in one image and run in another: pip, its caches and the sources stay behind.
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS build
WORKDIR /source
RUN python -m venv /opt/langmem
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY langmem_adapter langmem_adapter
RUN /opt/langmem/bin/pip install --no-cache-dir --constraint constraints.txt ".[server,mcp,metrics,otel,postgres]"

FROM python:${PYTHON}-slim
# Nobody's secret is built in: keys are made in the database, the rest comes from the environment of the container.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin langmem && install -d -o langmem -g langmem /data
COPY --from=build /opt/langmem /opt/langmem
ENV PATH=/opt/langmem/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    LANGMEM_ADAPTER_DATABASE=/data/memory.db
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=6 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/v1/health', timeout=4)"]
ENTRYPOINT ["langmem-adapter"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8765"]
