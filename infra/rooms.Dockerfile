# All rooms in one image; `python -m services.<room>` starts one.   docker build -f infra/rooms.Dockerfile -t autopatch .
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY pyproject.toml constraints.txt README.md ./
COPY autopatch autopatch
COPY services services
COPY infra infra
# the index of CPU wheels: plain PyPI brings 2.9 GB of CUDA with torch
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c constraints.txt -e ".[all]"
RUN useradd --uid 10001 --create-home autopatch && mkdir /state && chown autopatch /state
USER autopatch
ENV AUTOPATCH_STATE=/state
CMD ["python", "-m", "autopatch", "up", "--json"]
