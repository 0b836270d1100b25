#!/usr/bin/env bash
# report.sh BUILD SOURCE - the page of `attune cache report` in a real browser: headless Chromium draws it without
# a network (the page itself forbids scripts), the picture has the size that was asked for and something in every part of it; and it prints.
# Exit code 77 without Chromium or Python.
set -eu
BUILD=$1 SOURCE=$2
BROWSER=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$BROWSER" ] || { echo "skipped: no Chromium here (apt-get install chromium)"; exit 77; }
command -v python3 >/dev/null || { echo "skipped: no python3, which reads the picture"; exit 77; }
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

"$BUILD/tests/cli/make_store" "$WORK/store" || fail "no store"
"$BUILD/cli/attune" cache report --store "$WORK/store" -o "$WORK/report.html" || fail "no report"
browse() { # nothing of the user's, nothing of the network
  HOME="$WORK/home" timeout -k 10 120 "$BROWSER" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
    --user-data-dir="$WORK/profile" --host-resolver-rules="MAP * ~NOTFOUND" "$@" \
    "file://$WORK/report.html" >"$WORK/log" 2>&1 || { tail -n 5 "$WORK/log"; fail "$BROWSER"; }
}
mkdir "$WORK/home"
browse --hide-scrollbars --force-device-scale-factor=1 --window-size=1200,2400 --screenshot="$WORK/wide.png"
browse --hide-scrollbars --force-device-scale-factor=1 --window-size=520,2400 --screenshot="$WORK/narrow.png"
browse --no-pdf-header-footer --print-to-pdf="$WORK/report.pdf"
python3 "$SOURCE/tests/outside/report_picture.py" "$WORK/wide.png" 1200 2400 || fail "the wide picture"
python3 "$SOURCE/tests/outside/report_picture.py" "$WORK/narrow.png" 520 2400 || fail "the narrow picture"
python3 - "$WORK/report.pdf" <<'PY' || fail "the print"
import re, sys
data = open(sys.argv[1], "rb").read()
pages = re.findall(rb"/Type\s*/Page\b(?!s)", data)
boxes = {tuple(round(float(x)) for x in box.split()) for box in re.findall(rb"/MediaBox\s*\[([^\]]*)\]", data)}
assert data.startswith(b"%PDF-") and 8 <= len(pages) <= 60, f"{len(pages)} pages"
assert all(abs(box[2] - 595) <= 1 and abs(box[3] - 842) <= 1 for box in boxes) and boxes, f"not A4: {boxes}"
print(f"{len(pages)} pages of A4")
PY
echo "drawn and printed by $("$BROWSER" --version 2>/dev/null)"
