# The operator's image: nothing but Python, the locked dependencies and the two packages; no root, no shell needed, and a root file
# system that may be read-only. Build: docker build -t nodewright-operator .
FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/nodewright
WORKDIR /src
COPY requirements/ requirements/
RUN /opt/nodewright/bin/pip install --require-hashes --no-deps -r requirements/runtime.txt \
    && python -m venv /build && /build/bin/pip install --require-hashes --no-deps -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY nodewright/ nodewright/
COPY controller_runtime/ controller_runtime/
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/nodewright/bin/pip install --no-deps --no-index /wheels/*.whl \
    && /opt/nodewright/bin/python -m compileall -q /opt/nodewright \
    && /opt/nodewright/bin/pip uninstall -y pip

FROM python:3.11-slim
COPY --from=build /opt/nodewright /opt/nodewright
ENV PATH=/opt/nodewright/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
EXPOSE 8081 8443
ENTRYPOINT ["nodewright"]
CMD ["operator"]
