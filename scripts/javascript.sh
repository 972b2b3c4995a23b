#!/bin/sh
# Lints the page's scripts and checks their types; scripts/check.sh calls it. Node.js is for this
# alone: neither the server nor its wheel needs it.
# Exits with 77 where there is no Node.js, because nothing was checked; in CI that is a failure.
cd "$(dirname "$0")/.." || exit 2

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  echo "no Node.js here: the page's scripts were not checked. Debian's packages: nodejs npm"
  [ "${CI:-}" = true ] && exit 1
  exit 77
fi

# npm ci makes the folder anew; a run that was interrupted leaves no mark.
if ! [ node_modules/.current -nt package-lock.json ]; then
  npm ci --loglevel=error || exit 1
  touch node_modules/.current
fi

failed=0
node_modules/.bin/eslint --max-warnings=0 src/labfleet/web/static eslint.config.js || failed=1
node_modules/.bin/tsc --project tsconfig.json || failed=1
exit "$failed"
