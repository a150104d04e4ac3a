#!/usr/bin/env bash
# Builds the package, installs it into an empty environment on each interpreter at hand, and runs its commands there.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/build"
"$work/build/bin/pip" install --quiet build
"$work/build/bin/python" -m build --outdir "$work/dist" . > "$work/build.log" || { cat "$work/build.log"; exit 1; }
wheel=$(ls "$work"/dist/*.whl)
size=$(stat -c %s "$wheel")
echo "wheel: $size bytes"
[ "$size" -le 1677721 ] || { echo "the wheel has more than 1.6 MB"; exit 1; }
tar -tzf "$work"/dist/*.tar.gz > "$work/files"
for file in README.md CHANGELOG.md CONTRIBUTING.md LICENSE tests/conftest.py examples/quickstart.py graphs/rest.py; do
  grep -q "/$file$" "$work/files" || { echo "the sdist lacks $file"; exit 1; }
done
links=$(unzip -p "$wheel" '*.dist-info/METADATA' | grep -oE '\]\([^)]*\)' | grep -v '(https\?://' || true)
[ -z "$links" ] || { echo "the built metadata has links to files: $links"; exit 1; }
"$work/build/bin/pip" install --quiet --dry-run --ignore-installed --only-binary=:all: --python-version 3.14 \
  --target "$work/none" "$wheel" || { echo "no set of dependencies for Python 3.14"; exit 1; }
for python in ${PYTHONS:-python3.11 python3.12 python3.13}; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "$python: not at hand"; continue; }
  env="$work/env-${python//\//-}"
  "$python" -m venv "$env"
  "$env/bin/pip" install --quiet "$wheel[server]"
  cd "$work"
  run="$env/bin/langmem-adapter"
  "$run" demo > /dev/null
  "$run" -d "$env/app.db" add "I live in Lyon." -u alice > /dev/null
  "$run" -d "$env/app.db" search "Where does she live?" -u alice --json | grep -q "Lives in Lyon"
  LANGMEM_ADAPTER_DATABASE="$env/quickstart.db" "$env/bin/python" "$OLDPWD/examples/quickstart.py" > /dev/null
  "$run" -d "$env/app.db" serve --port 18787 > "$env/serve.log" 2>&1 &
  server=$!
  for _ in $(seq 60); do
    "$env/bin/python" -c "import urllib.request as r; r.urlopen('http://127.0.0.1:18787/v1/health')" 2>/dev/null && break
    sleep 1
  done
  "$env/bin/python" -c "import urllib.request as r; assert r.urlopen('http://127.0.0.1:18787/v1/health').status == 200"
  kill "$server"; wait "$server" || true
  "$env/bin/python" -c "
import sys
from langmem_adapter import Memory
loaded = [name for name in ('langchain.agents', 'fastapi', 'rich') if name in sys.modules]
assert not loaded, f'importing Memory loads {loaded}'"
  cd - > /dev/null
  echo "$python: demo, add, search, quickstart, serve and the import are fine"
done
