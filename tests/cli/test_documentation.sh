#!/usr/bin/env bash
# docs/configuration.md holds the key table as the program prints it.
set -u
page=$(dirname "$0")/../../docs/configuration.md
table=$("$ZERO" --describe-configuration) || exit 1
case "$(cat "$page")" in
  *"$table"*) ;;
  *) echo "docs/configuration.md is not what zero --describe-configuration prints" >&2; exit 1;;
esac
